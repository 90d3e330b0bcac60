// AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101), in the
// order of operations of torch.optim.AdamW.
#include "megatron/optimizer.hpp"

namespace {

using megatron::option;
using megatron::Value;
using megatron::ops::pow;
using megatron::ops::sqrt;

class AdamW final : public megatron::Optimizer {
 public:
  explicit AdamW(const megatron::Config& config)
      : beta1_(config.number("adam_beta1")),
        beta2_(config.number("adam_beta2")),
        epsilon_(config.number("adam_eps")) {}

  std::vector<megatron::StateSpec> states(const megatron::ParameterInfo&) const override {
    return {{"exp_avg"}, {"exp_avg_sq"}};
  }

  void update(const megatron::Builder& b, megatron::Update& u) const override {
    const Value& g = u.gradient;
    // p ← p (1 - lr λ);  m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²
    const Value decayed =
        decays(u.info) ? u.parameter * (1.0 - u.lr * u.weight_decay) : u.parameter;
    const Value m = u.states[0] * beta1_ + g * (1 - beta1_);
    const Value v = u.states[1] * beta2_ + g * g * (1 - beta2_);
    // p ← p - lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
    const Value step_size = u.lr / (1.0 - pow(b.constant(beta1_), u.step));
    const Value correction = sqrt(1.0 - pow(b.constant(beta2_), u.step));
    u.new_parameter = decayed - step_size * (m / (sqrt(v) / correction + epsilon_));
    u.new_states = {m, v};
  }

 private:
  // Megatron's rule: biases and the vectors of norms are not decayed.
  static bool decays(const megatron::ParameterInfo& info) {
    return info.rank > 1 && !info.name.ends_with(".bias");
  }

  double beta1_;
  double beta2_;
  double epsilon_;
};

constexpr megatron::Option kOptions[] = {
    option("adam_beta1", MGT_OPTION_FLOAT, "0.9", "decay of the first moment per step")
        .at_least(0)
        .below(1),
    option("adam_beta2", MGT_OPTION_FLOAT, "0.999", "decay of the second moment per step")
        .at_least(0)
        .below(1),
    option("adam_eps", MGT_OPTION_FLOAT, "1e-8", "added to the root of the second moment").above(0),
};

}  // namespace

MEGATRON_PLUGIN(mgt_optimizer, "0.1.0", .description = "Adam with decoupled weight decay.",
                .options = kOptions, .table = megatron::optimizer_table<AdamW>());
