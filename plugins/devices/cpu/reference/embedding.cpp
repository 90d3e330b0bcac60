// Rows of a table by id, and the scatter-add that is its gradient.
#include <algorithm>

#include "reference/reference.hpp"
#include "shapes/row_shapes.hpp"

namespace megatron::cpu::reference {

std::unique_ptr<Kernel> embedding(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 2, 1);
  if (!is_f32(desc, reason, 0)) return nullptr;
  const auto shape = embedding_shape(desc, desc.inputs[1], desc.outputs[0]);
  return make_kernel(kName, 0, [shape](const Launch& l) {
    const auto* ids = l.input<int32_t>(0);
    const float* table = l.input(1);  // [v, K]
    float* out = l.output(0);         // [M, K]
    for (int64_t m = 0; m < shape.ids; ++m, out += shape.columns) {
      const int64_t row = shape.vocab.local(ids[m]);
      if (row < 0) {
        std::fill_n(out, shape.columns, 0.0f);
      } else {
        std::copy_n(table + row * shape.columns, shape.columns, out);
      }
    }
  });
}

std::unique_ptr<Kernel> embedding_grad(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 2, 1);
  if (!is_f32(desc, reason, 0)) return nullptr;
  const auto shape = embedding_shape(desc, desc.outputs[0], desc.inputs[1]);
  return make_kernel(kName, 0, [shape, acc = Accumulation(desc)](const Launch& l) {
    const auto* ids = l.input<int32_t>(0);
    const float* dy = l.input(1);  // [M, K]
    float* table = l.output(0);    // [v, K]
    if (!acc.adds(l, 0)) std::fill_n(table, shape.vocab.local_size() * shape.columns, 0.0f);
    for (int64_t m = 0; m < shape.ids; ++m, dy += shape.columns) {
      const int64_t row = shape.vocab.local(ids[m]);
      if (row < 0) continue;
      for (int64_t c = 0; c < shape.columns; ++c) table[row * shape.columns + c] += dy[c];
    }
  });
}

}  // namespace megatron::cpu::reference
