// Scaled dot-product attention. The log-sum-exp of each row is a result, so that the gradient and
// the ring variant need neither the probabilities nor all keys at once.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

const std::vector<AttrSpec>& attention_attrs() {
  static const std::vector<AttrSpec> attrs = {{"causal", AttrKind::integer},
                                              {"scale", AttrKind::floating},
                                              {"dropout", AttrKind::floating, false},
                                              {"site", AttrKind::string, false}};
  return attrs;
}

// Forward: two products of 2·s·t·d a head; half of it under a causal mask. Backward: five.
double attention_flops(const Attrs& attrs, const Labels& labels, std::span<const int64_t> sizes,
                       double products) {
  double n = 2 * products;
  for (size_t l = 0; l < sizes.size(); ++l) {
    if (labels.letters[l] != 'g') n *= static_cast<double>(sizes[l]);
  }
  return int_attr(attrs, "causal") != 0 ? n / 2 : n;
}

void attention_gradient(GradientScope& s) {
  const auto grads = s.emit(
      "attention_grad", {s.grad(0), s.in(0), s.in(1), s.in(2), s.out(0), s.out(1)}, s.node().attrs);
  for (size_t i = 0; i < 3; ++i) {
    if (s.needs(i)) s.set(i, grads[i]);
  }
}

}  // namespace

void add_attention_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "attention",
                   .pattern = "bsnd,btgd,btgd->bsnd,bns",
                   .attrs = attention_attrs(),
                   .outputs = 2,
                   .whole = "td",
                   .coupled = "ng",
                   .gradient = attention_gradient,
                   .flops = [](const Attrs& a, const Labels& l, std::span<const int64_t> n) {
                     return attention_flops(a, l, n, 2);
                   }});
  table.push_back({.name = "attention_grad",
                   .pattern = "bsnd,bsnd,btgd,btgd,bsnd,bns->bsnd,btgd,btgd",
                   .attrs = attention_attrs(),
                   .outputs = 3,
                   .linear = 0,
                   .whole = "d",
                   .coupled = "ng",
                   .flops = [](const Attrs& a, const Labels& l, std::span<const int64_t> n) {
                     return attention_flops(a, l, n, 5);
                   }});
  table.push_back({.name = "attention_merge",
                   .pattern = "bsnd,bns,bsnd,bns->bsnd,bns",
                   .outputs = 2,
                   .internal = true});
}

}  // namespace megatron::graph
