// Sums, and the broadcast that is their gradient.
#include <algorithm>

#include "reference/reference.hpp"
#include "shapes/row_shapes.hpp"

namespace megatron::cpu::reference {

std::unique_ptr<Kernel> sum(const KernelDesc& desc, const Host&, std::string& reason) {
  const auto [rows, columns] = sum_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return make_kernel(kName, 0,
                     [rows = rows, columns = columns, acc = Accumulation(desc)](const Launch& l) {
                       for (int64_t c = 0; c < columns; ++c) {
                         double total = acc.adds(l, 0) ? static_cast<double>(l.output(0)[c]) : 0.0;
                         for (int64_t r = 0; r < rows; ++r) {
                           total += static_cast<double>(l.input(0)[r * columns + c]);
                         }
                         l.output(0)[c] = static_cast<float>(total);
                       }
                     });
}

std::unique_ptr<Kernel> sum_squares(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 1, 1);
  if (!is_f32(desc, reason)) return nullptr;
  const int64_t n = desc.inputs[0].elements();
  return make_kernel(kName, 0, [n](const Launch& l) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) {
      total += static_cast<double>(l.input(0)[i]) * static_cast<double>(l.input(0)[i]);
    }
    l.output(0)[0] = static_cast<float>(total);
  });
}

// g is a rank-0 tensor or a scalar.
std::unique_ptr<Kernel> expand(const KernelDesc& desc, const Host&, std::string& reason) {
  const bool by_value = desc.scalar_count > 0;
  expect_operands(desc, by_value ? 1 : 2, 1);
  if (desc.outputs[0].dtype != DType::f32 || (!by_value && desc.inputs[0].dtype != DType::f32)) {
    reason = "g and the result must be f32";
    return nullptr;
  }
  const int64_t n = desc.outputs[0].elements();
  return make_kernel(kName, 0, [n, by_value](const Launch& l) {
    std::fill_n(l.output(0), n, by_value ? static_cast<float>(l.scalar(0)) : l.input(0)[0]);
  });
}

// n numbers side by side.
std::unique_ptr<Kernel> pack(const KernelDesc& desc, const Host&, std::string& reason) {
  if (!is_f32(desc, reason)) return nullptr;
  expect_operands(desc, desc.inputs.size(), 1);
  expect(std::ranges::all_of(desc.inputs, [](const TensorDesc& t) { return t.rank() == 0; }) &&
             desc.outputs[0].dims == std::vector{static_cast<int64_t>(desc.inputs.size())},
         desc, "it takes n tensors of rank 0 and gives [n]");
  return make_kernel(kName, 0, [n = desc.inputs.size()](const Launch& l) {
    for (size_t i = 0; i < n; ++i) l.output(0)[i] = l.input(i)[0];
  });
}

}  // namespace megatron::cpu::reference
