// Products with a weight: y[M..., N...] = x[M..., K...] · w[N..., K...]ᵀ and its two gradients.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

double product_flops(const Attrs&, const Labels&, std::span<const int64_t> sizes) {
  double n = 2;
  for (const int64_t s : sizes) n *= static_cast<double>(s);
  return n;
}

void linear_gradient(GradientScope& s) {
  const auto contract = int_attr(s.node().attrs, "contract");
  const auto w_rank = static_cast<int64_t>(s.type(s.in(1)).rank());
  const auto x_rank = static_cast<int64_t>(s.type(s.in(0)).rank());
  const ValueId dy = s.grad(0);
  if (s.needs(0))
    s.set(0, s.emit1("linear_dgrad", {dy, s.in(1)}, {{"contract", w_rank - contract}}));
  if (s.needs(1))
    s.set(1, s.emit1("linear_wgrad", {dy, s.in(0)}, {{"contract", x_rank - contract}}));
}

}  // namespace

void add_linear_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "linear",
                   .pattern = "MK,NK->MN",
                   .group = 'K',
                   .group_attr = "contract",
                   .attrs = {{"contract", AttrKind::integer}},
                   .linear = 0b11,
                   .gradient = linear_gradient,
                   .flops = product_flops});
  table.push_back({.name = "linear_dgrad",
                   .pattern = "MN,NK->MK",
                   .group = 'N',
                   .group_attr = "contract",
                   .attrs = {{"contract", AttrKind::integer}},
                   .linear = 0b11,
                   .flops = product_flops});
  table.push_back({.name = "linear_wgrad",
                   .pattern = "MN,MK->NK",
                   .group = 'M',
                   .group_attr = "contract",
                   .attrs = {{"contract", AttrKind::integer}},
                   .linear = 0b11,
                   .accumulates = 0b1,
                   .flops = product_flops});
}

}  // namespace megatron::graph
