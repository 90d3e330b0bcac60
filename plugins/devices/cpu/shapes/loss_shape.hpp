// Sizes of a linear layer with cross entropy: x[M, k], w[v, k], labels[M].
#pragma once

#include "shapes/operands.hpp"

namespace megatron::cpu {

struct LossShape {
  int64_t rows;      // M
  int64_t hidden;    // k
  IndexMap vocab;    // which rows of the vocabulary w holds; uncovered local rows are padding
  int64_t held = 0;  // rows of w that are not padding
};

inline LossShape loss_shape(const KernelDesc& desc, size_t inputs, size_t outputs) {
  expect_operands(desc, inputs, outputs);
  const auto& x = desc.inputs[0];
  const auto& w = desc.inputs[1];
  expect(x.rank() >= 1 && w.rank() == 2 && w.dims[1] == x.dims.back(), desc,
         "it takes x[M..., k] and w[v, k]");
  LossShape shape{desc.inputs[2].elements(), x.dims.back(), w.maps[0]};
  expect(x.elements() == shape.rows * shape.hidden, desc, "labels must be shaped like x without k");
  for (const auto& piece : shape.vocab.pieces()) shape.held += piece.size;
  return shape;
}

}  // namespace megatron::cpu
