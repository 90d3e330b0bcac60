// Cross entropy of a linear layer that never stores its logits as a whole.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

double loss_flops(std::span<const int64_t> sizes, double products) {
  double n = 2 * products;
  for (const int64_t s : sizes) n *= static_cast<double>(s);
  return n;
}

void loss_gradient(GradientScope& s) {
  const auto grads = s.emit("linear_cross_entropy_grad",
                            {s.in(0), s.in(1), s.in(2), s.out(0), s.grad(0), s.grad(1)});
  if (s.needs(0)) s.set(0, grads[0]);
  if (s.needs(1)) s.set(1, grads[1]);
}

}  // namespace

void add_loss_ops(std::vector<OpDef>& table) {
  // The log-sum-exp of vocabulary shards combines by log-sum-exp, the label's logit by sum.
  table.push_back({.name = "linear_cross_entropy",
                   .pattern = "Mk,vk,M->M,M",
                   .outputs = 2,
                   .ids = 0b100,
                   .ids_of = 'v',
                   .whole = "k",
                   .reduce = Reduce::logsumexp,
                   .gradient = loss_gradient,
                   .flops = [](const Attrs&, const Labels&, std::span<const int64_t> n) {
                     return loss_flops(n, 1);
                   }});
  table.push_back({.name = "linear_cross_entropy_grad",
                   .pattern = "Mk,vk,M,M,M,M->Mk,vk",
                   .outputs = 2,
                   .ids = 0b100,
                   .ids_of = 'v',
                   .whole = "k",
                   .accumulates = 0b10,
                   .flops = [](const Attrs&, const Labels&, std::span<const int64_t> n) {
                     return loss_flops(n, 3);
                   }});
  // Both in one pass, where the whole vocabulary is held and the seeds do not depend on the loss.
  table.push_back({.name = "linear_cross_entropy_train",
                   .pattern = "Mk,vk,M,M,M->M,M,Mk,vk",
                   .outputs = 4,
                   .ids = 0b100,
                   .ids_of = 'v',
                   .whole = "vk",
                   .accumulates = 0b1000,
                   .flops = [](const Attrs&, const Labels&,
                               std::span<const int64_t> n) { return loss_flops(n, 3); },
                   .internal = true});
}

}  // namespace megatron::graph
