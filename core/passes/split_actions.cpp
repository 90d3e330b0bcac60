#include "passes/split_actions.hpp"

#include <algorithm>
#include <optional>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "graph/verifier.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

enum class Action : uint8_t { forward, backward, weight };

// Forward nodes and what they need: a fused loss reads the seed of its gradient.
std::vector<bool> forward_nodes(const Program& program) {
  std::vector<bool> forward(program.nodes.size(), false);
  std::vector<bool> wanted(program.values.size(), false);
  for (size_t n = program.nodes.size(); n-- > 0;) {
    const Node& node = program.nodes[n];
    forward[n] =
        node.phase != Phase::backward ||
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return wanted[v]; });
    if (!forward[n]) continue;
    for (const ValueId v : node.inputs) wanted[v] = true;
  }
  return forward;
}

// Backward nodes whose results another stage waits for, and what they need.
std::vector<bool> urgent_nodes(const Program& program) {
  std::vector<bool> urgent(program.nodes.size(), false);
  std::vector<bool> wanted(program.values.size(), false);
  for (size_t n = program.nodes.size(); n-- > 0;) {
    const Node& node = program.nodes[n];
    const bool message = node.op->name == "send" || node.op->name == "recv";
    urgent[n] = message || std::any_of(node.outputs.begin(), node.outputs.end(),
                                       [&](ValueId v) { return wanted[v]; });
    if (!urgent[n]) continue;
    for (const ValueId v : node.inputs) wanted[v] = true;
  }
  return urgent;
}

class Splitter {
 public:
  Splitter(const Program& program, bool separate_weights) : p_(program) {
    const auto forward = forward_nodes(program);
    const auto urgent = urgent_nodes(program);
    for (size_t n = 0; n < program.nodes.size(); ++n) {
      actions_.push_back(forward[n]                       ? Action::forward
                         : separate_weights && !urgent[n] ? Action::weight
                                                          : Action::backward);
    }
    find_saved();
  }

  Result<Program> program_of(Action action, std::string_view suffix) const {
    Program out = p_;
    out.name = text(p_.name, ".", suffix);
    std::vector<Node> nodes;
    std::vector<ValueId> memory(p_.values.size(), kNone);  // the state that holds a saved value
    for (NodeId n = 0; n < p_.nodes.size(); ++n) {
      const Node& original = p_.nodes[n];
      if (p_.yields_scalar(original)) {
        nodes.push_back(original);  // the host's arithmetic: wherever it is read
        continue;
      }
      if (actions_[n] != action) continue;
      Node node = original;
      for (ValueId& v : node.inputs) {
        const Value& value = p_.values[v];
        const bool elsewhere = value.kind == ValueKind::result && !value.type.is_scalar() &&
                               actions_[value.producer] != action;
        if (elsewhere) v = state(out, memory, v);
      }
      for (const ValueId v : node.outputs) {
        if (!saved_[v] || out.values[v].into != kNone) continue;
        const ValueId home = state(out, memory, v);
        out.values[v].into = home;
      }
      nodes.push_back(std::move(node));
    }
    out.nodes = std::move(nodes);
    out = drop_unused(std::move(out));
    MGT_RETURN_IF_ERROR(verify(out).context(text("splitting off the ", suffix, " action")));
    return out;
  }

 private:
  // Values that live longer than the action that makes them, or until a message has left.
  void find_saved() {
    saved_.assign(p_.values.size(), false);
    for (NodeId n = 0; n < p_.nodes.size(); ++n) {
      for (const ValueId v : p_.nodes[n].inputs) {
        const Value& value = p_.values[v];
        if (value.kind != ValueKind::result || value.type.is_scalar()) continue;
        if (actions_[value.producer] != actions_[n] || p_.nodes[n].op->name == "send")
          saved_[v] = true;
      }
    }
  }

  ValueId state(Program& out, std::vector<ValueId>& memory, ValueId v) const {
    if (memory[v] != kNone) return memory[v];
    if (p_.values[v].into != kNone) return memory[v] = p_.values[v].into;  // it has a home already
    Value value;
    value.name = text(kSavedPrefix, p_.values[v].name);
    value.type = p_.values[v].type;
    value.maps = p_.values[v].maps;
    value.kind = ValueKind::state;
    return memory[v] = out.add_value(std::move(value));
  }

  const Program& p_;
  std::vector<Action> actions_;
  std::vector<bool> saved_;
};

}  // namespace

Result<ActionPrograms> split_actions(const Program& stage, bool separate_weights) {
  const Splitter splitter(stage, separate_weights);
  ActionPrograms out;
  MGT_ASSIGN_OR_RETURN(out.forward, splitter.program_of(Action::forward, "forward"));
  MGT_ASSIGN_OR_RETURN(out.backward, splitter.program_of(Action::backward, "backward"));
  MGT_ASSIGN_OR_RETURN(out.weight, splitter.program_of(Action::weight, "weight"));
  return out;
}

}  // namespace megatron::passes
