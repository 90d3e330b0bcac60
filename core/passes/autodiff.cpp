#include "passes/autodiff.hpp"

#include <algorithm>
#include <map>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "graph/verifier.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace): this file is about graphs alone

class Differentiator final : public GradientScope {
 public:
  explicit Differentiator(Program program) : builder_(std::move(program)) {
    builder_.set_phase(Phase::backward);
  }

  Result<Program> run() {
    const size_t forward_nodes = p().nodes.size();
    find_needs();
    for (const auto& loss : std::vector<LossTerm>(p().losses)) {
      grads_[loss.sum].push_back(builder_.scalar(text(kGradSeedPrefix, loss.name)));
    }
    for (size_t n = forward_nodes; n-- > 0;) {
      node_ = p().nodes[n];
      const bool flows = std::any_of(node_.outputs.begin(), node_.outputs.end(),
                                     [&](ValueId v) { return grads_.contains(v); });
      const bool needed = std::any_of(node_.inputs.begin(), node_.inputs.end(),
                                      [&](ValueId v) { return needs_[v]; });
      if (!flows || !needed) continue;
      if (node_.op->gradient == nullptr) {
        return invalid_argument(
            text("op '", node_.op->name, "'", node_.scope.empty() ? "" : " in ", node_.scope,
                 " has no gradient"),
            "a trainable parameter reaches the loss through it",
            "write it with ops that have one, or declare the parameters before it frozen");
      }
      builder_.set_place(node_);
      node_.op->gradient(*this);
    }
    MGT_RETURN_IF_ERROR(write_parameter_gradients());
    Program out = std::move(p());
    MGT_RETURN_IF_ERROR(verify(out).context("differentiating"));
    return out;
  }

  // ---- GradientScope
  const Node& node() const override { return node_; }
  const Type& type(ValueId value) const override { return p().type(value); }
  bool needs(size_t input) const override { return needs_[node_.inputs[input]]; }

  ValueId broadcast_grad(size_t output) override {
    const auto it = grads_.find(node_.outputs[output]);
    if (it == grads_.end()) return kNone;
    auto& parts = it->second;
    while (parts.size() >
           1) {  // ((first + second) + third) …: the order of the readers, last first
      const ValueId sum = builder_.op1("add", {parts[0], parts[1]});
      parts.erase(parts.begin());
      parts[0] = sum;
    }
    return parts[0];
  }

  ValueId grad(size_t output) override {
    const ValueId like = node_.outputs[output];
    const ValueId g = broadcast_grad(output);
    if (g == kNone) return builder_.op1("zeros_like", {like});
    const ValueId full = in_shape_of(g, like);
    grads_[like] = {full};
    return full;
  }

  std::vector<ValueId> emit(std::string_view op, std::vector<ValueId> inputs,
                            Attrs attrs) override {
    auto out = builder_.op(op, std::move(inputs), std::move(attrs));
    MGT_CHECK(out.ok(), out.status().message());
    return std::move(out).value();
  }
  ValueId constant(double value) override { return builder_.constant(value); }

  void set(size_t input, ValueId gradient) override {
    const ValueId target = node_.inputs[input];
    if (gradient == kNone || !needs_[target]) return;
    const auto rank = static_cast<int64_t>(type(target).rank());
    // The operand was broadcast and so is its gradient: both leave dimensions out that the sum
    // below runs over.
    const ValueId result = node_.outputs[0];
    if (node_.op->elementwise() && type(target).rank() < type(result).rank())
      gradient = in_shape_of(gradient, result);
    if (static_cast<int64_t>(type(gradient).rank()) > rank) {
      gradient = builder_.op1("sum", {gradient}, {{"keep", rank}});
    }
    grads_[target].push_back(gradient);
  }

 private:
  // A gradient that broadcasts to `like`, in the shape of `like`.
  ValueId in_shape_of(ValueId g, ValueId like) {
    if (type(g).rank() == type(like).rank() && !type(g).is_scalar()) return g;
    if (type(g).rank() == 0) return builder_.op1("expand", {g, like});
    return builder_.op1("add", {builder_.op1("zeros_like", {like}), g});
  }

  Program& p() { return builder_.program(); }
  const Program& p() const { return const_cast<ProgramBuilder&>(builder_).program(); }

  void find_needs() {
    needs_.assign(p().values.size(), false);
    for (const auto& parameter : p().parameters) needs_[parameter.value] = parameter.trainable;
    for (const auto& n : p().nodes) {
      const bool any =
          std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return needs_[v]; });
      for (const ValueId v : n.outputs) needs_[v] = any;
    }
  }

  Status write_parameter_gradients() {
    const ValueId accumulate = builder_.scalar(kAccumulateScalar);
    for (const auto& parameter : std::vector<Parameter>(p().parameters)) {
      if (!parameter.trainable) continue;
      const std::string name = p().values[parameter.value].name;
      const auto it = grads_.find(parameter.value);
      if (it == grads_.end()) {
        return invalid_argument(text("parameter '", name, "' gets no gradient"),
                                "no loss term depends on it",
                                "use it in the forward program, remove it, or declare it frozen");
      }
      auto uses = it->second;
      std::reverse(uses.begin(), uses.end());  // they were found last use first
      for (size_t use = 0; use < uses.size(); ++use) {
        const std::string state_name =
            uses.size() == 1 ? text(kGradientPrefix, name) : text(kGradientPrefix, name, "@", use);
        MGT_ASSIGN_OR_RETURN(const ValueId state,
                             builder_.state(state_name, type(parameter.value)));
        write_into(accumulable(uses[use], parameter.value), state, accumulate);
      }
    }
    return {};
  }

  // The gradient as the result of an op that can add to an accumulator.
  ValueId accumulable(ValueId g, ValueId parameter) {
    g = in_shape_of(g, parameter);
    const Value& value = p().values[g];
    if (value.kind == ValueKind::result && value.into == kNone) {
      const Node& producer = p().nodes[value.producer];
      const auto o =
          std::find(producer.outputs.begin(), producer.outputs.end(), g) - producer.outputs.begin();
      if (((producer.op->accumulates >> o) & 1) != 0) return g;
    }
    return builder_.op1("sum", {g}, {{"keep", static_cast<int64_t>(type(g).rank())}});
  }

  void write_into(ValueId g, ValueId state, ValueId accumulate) {
    Value& value = p().values[g];
    value.into = state;
    Node& producer = p().nodes[value.producer];
    const auto o =
        std::find(producer.outputs.begin(), producer.outputs.end(), g) - producer.outputs.begin();
    if (producer.accumulate_mask == 0) producer.inputs.push_back(accumulate);
    producer.accumulate_mask |= uint64_t{1} << o;
  }

  ProgramBuilder builder_;
  Node node_;  // a copy: emitting moves the program's nodes
  std::vector<bool> needs_;
  std::map<ValueId, std::vector<ValueId>> grads_;
};

}  // namespace

Result<graph::Program> differentiate(graph::Program program) {
  return Differentiator(std::move(program)).run();
}

}  // namespace megatron::passes
