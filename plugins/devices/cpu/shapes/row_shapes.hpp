// Shapes of ops that work row by row: layer norms, embeddings, sums.
#pragma once

#include "shapes/operands.hpp"

namespace megatron::cpu {

struct RowShape {
  int64_t rows;
  int64_t columns;
};

// layer_norm and its gradients: input `x` is [M..., k].
inline RowShape norm_shape(const KernelDesc& desc, size_t x) {
  const auto& t = desc.inputs[x];
  expect(t.rank() >= 1, desc, "x needs a last dimension to normalise over");
  return {t.product(0, t.rank() - 1), t.dims.back()};
}

struct EmbeddingShape {
  int64_t ids;
  int64_t columns;  // product of K
  IndexMap vocab;   // rows of the table held
};

// ids[M] with a table[vK] (an input or the output).
inline EmbeddingShape embedding_shape(const KernelDesc& desc, const TensorDesc& table,
                                      const TensorDesc& rows) {
  const auto& ids = desc.inputs[0];
  expect(table.rank() >= 1 && rows.rank() == ids.rank() + table.rank() - 1, desc,
         "it takes ids[M...] and a table[v, K...] with rows [M..., K...]");
  EmbeddingShape shape{ids.elements(), table.product(1, table.rank()), table.maps[0]};
  expect(rows.elements() == shape.ids * shape.columns, desc, "rows must be [M..., K...]");
  return shape;
}

// x[MN] -> [N], `keep` = rank of N.
inline RowShape sum_shape(const KernelDesc& desc) {
  expect_operands(desc, 1, 1);
  const auto& x = desc.inputs[0];
  const auto keep = static_cast<size_t>(desc.integer("keep", 0));
  expect(keep <= x.rank(), desc, text("'keep' = ", keep, " exceeds the rank"));
  const RowShape shape{x.product(0, x.rank() - keep), x.product(x.rank() - keep, x.rank())};
  expect(desc.outputs[0].elements() == shape.columns, desc, "the result must be [N]");
  return shape;
}

}  // namespace megatron::cpu
