#include "passes/fuse_loss.hpp"

#include <algorithm>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

// Nodes in (first, last) that `last` needs; false when one of them depends on `first`.
bool ancestors_between(const Program& program, NodeId first, NodeId last,
                       std::vector<bool>& needed) {
  std::vector<bool> wanted(program.values.size(), false);
  for (const ValueId v : program.nodes[last].inputs) {
    const auto& outputs = program.nodes[first].outputs;
    if (std::find(outputs.begin(), outputs.end(), v) == outputs.end()) wanted[v] = true;
  }
  for (NodeId n = last; n-- > first + 1;) {
    const Node& node = program.nodes[n];
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId v) { return wanted[v]; }))
      continue;
    needed[n] = true;
    for (const ValueId v : node.inputs) wanted[v] = true;
  }
  const auto& outputs = program.nodes[first].outputs;
  return std::none_of(outputs.begin(), outputs.end(), [&](ValueId v) { return wanted[v]; });
}

bool fuse_one(Program& program) {
  for (NodeId last = 0; last < program.nodes.size(); ++last) {
    const Node& grad = program.nodes[last];
    if (grad.op->name != "linear_cross_entropy_grad") continue;
    const Value& lse = program.values[grad.inputs[3]];
    if (lse.kind != ValueKind::result) continue;
    const NodeId first = lse.producer;
    const Node& loss = program.nodes[first];
    const bool same = loss.op->name == "linear_cross_entropy" &&
                      loss.outputs[0] == grad.inputs[3] &&
                      std::equal(loss.inputs.begin(), loss.inputs.end(), grad.inputs.begin());
    std::vector<bool> hoisted(program.nodes.size(), false);
    if (!same || !ancestors_between(program, first, last, hoisted)) continue;

    Node both = loss;
    both.op = op("linear_cross_entropy_train");
    both.inputs = {grad.inputs[0], grad.inputs[1], grad.inputs[2], grad.inputs[4], grad.inputs[5]};
    if (grad.accumulate_mask != 0) both.inputs.push_back(grad.inputs.back());
    both.accumulate_mask = grad.accumulate_mask << 2;
    both.outputs = {loss.outputs[0], loss.outputs[1], grad.outputs[0], grad.outputs[1]};
    std::vector<Node> nodes;
    for (NodeId n = 0; n < program.nodes.size(); ++n) {
      if (n == first) {
        for (NodeId h = first + 1; h < last; ++h) {
          if (hoisted[h]) nodes.push_back(program.nodes[h]);
        }
        nodes.push_back(both);
      } else if (n != last && !hoisted[n]) {
        nodes.push_back(program.nodes[n]);
      }
    }
    replace_nodes(program, std::move(nodes));
    return true;
  }
  return false;
}

}  // namespace

Status fuse_loss(Program& program) {
  while (fuse_one(program)) {
  }
  return {};
}

}  // namespace megatron::passes
