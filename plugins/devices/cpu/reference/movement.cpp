// Ops that only move elements, one element at a time.
#include <array>
#include <cstring>

#include "reference/reference.hpp"
#include "shapes/movement_shape.hpp"

namespace megatron::cpu::reference {

std::unique_ptr<Kernel> movement(const KernelDesc& desc, const Host&, std::string&) {
  return make_kernel(kName, 0, [m = movement_shape(desc)](const Launch& l) {
    const auto* from = l.input<char>(0);
    auto* to = l.output<char>(0);
    const auto bytes = static_cast<int64_t>(m.element_bytes);
    if (!m.covered) std::memset(to, 0, static_cast<size_t>(m.result_elements * bytes));
    for (const Box& box : m.boxes) {
      for (int64_t e = 0; e < box.elements(); ++e) {
        int64_t rest = e, source = box.from, target = box.to;
        for (uint32_t d = box.rank; d-- > 0; rest /= box.sizes[d]) {
          source += rest % box.sizes[d] * box.from_strides[d];
          target += rest % box.sizes[d] * box.to_strides[d];
        }
        std::memcpy(to + target * bytes, from + source * bytes, m.element_bytes);
      }
    }
  });
}

}  // namespace megatron::cpu::reference
