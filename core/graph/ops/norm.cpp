// Layer normalisation (Ba et al. 2016, arXiv:1607.06450).
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

void layer_norm_gradient(GradientScope& s) {
  const ValueId dy = s.grad(0);
  if (s.needs(0)) {
    s.set(0, s.emit1("layer_norm_grad", {dy, s.in(0), s.out(1), s.out(2), s.in(1)}));
  }
  if (s.needs(1) || s.needs(2)) {
    const auto grads = s.emit("layer_norm_param_grad", {dy, s.in(0), s.out(1), s.out(2)});
    if (s.needs(1)) s.set(1, grads[0]);
    if (s.needs(2)) s.set(2, grads[1]);
  }
}

}  // namespace

void add_norm_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "layer_norm",
                   .pattern = "Mk,k,k->Mk,M,M",
                   .attrs = {{"epsilon", AttrKind::floating}},
                   .outputs = 3,
                   .whole = "k",
                   .gradient = layer_norm_gradient});
  table.push_back(
      {.name = "layer_norm_grad", .pattern = "Mk,Mk,M,M,k->Mk", .linear = 0b1, .whole = "k"});
  table.push_back({.name = "layer_norm_param_grad",
                   .pattern = "Mk,Mk,M,M->k,k",
                   .outputs = 2,
                   .linear = 0b1,
                   .accumulates = 0b11});
}

}  // namespace megatron::graph
