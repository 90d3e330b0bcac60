// Sums, and the broadcast that is their gradient.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

// The gradient of the sum, of lower rank, broadcasts over the leading dimensions that were summed.
void sum_gradient(GradientScope& s) {
  if (s.needs(0)) s.set(0, s.broadcast_grad(0));
}

// n numbers -> [n]
Result<std::vector<Type>> infer_pack(const Attrs&, std::span<const Type> inputs) {
  for (const auto& t : inputs) {
    if (t.rank() != 0 || t.is_scalar())
      return invalid_argument(text("pack takes tensors of rank 0, got ", to_string(t)));
  }
  return std::vector<Type>{{DType::f32, {{static_cast<int64_t>(inputs.size()), ""}}}};
}

}  // namespace

void add_reduction_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "sum",
                   .pattern = "MN->N",
                   .group = 'N',
                   .group_attr = "keep",
                   .attrs = {{"keep", AttrKind::integer, false}},
                   .linear = 0b1,
                   .accumulates = 0b1,
                   .gradient = sum_gradient});
  table.push_back({.name = "sum_squares", .pattern = "M->"});
  table.push_back({.name = "pack", .joins_partials = true, .infer = infer_pack, .internal = true});
  table.push_back({.name = "expand", .pattern = ",M->M", .linear = 0b1});
}

}  // namespace megatron::graph
