#include "passes/cleanup.hpp"

#include <algorithm>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"

namespace megatron::passes {

using namespace graph;  // NOLINT(google-build-using-namespace)

Status strip_dropout(Program& program) {
  for (auto& node : program.nodes) {
    if (node.op->name == "dropout") replace_uses(program, node.outputs[0], node.inputs[0]);
    if (node.attrs.contains("dropout")) {
      node.attrs["dropout"] = 0.0;
      node.attrs["site"] = std::string();
    }
  }
  return eliminate_dead_nodes(program);
}

Status eliminate_dead_nodes(Program& program) {
  std::vector<bool> read = exported_values(program);
  std::vector<bool> live(program.nodes.size(), false);
  for (size_t n = program.nodes.size(); n-- > 0;) {
    const Node& node = program.nodes[n];
    live[n] = node.outputs.empty() ||
              std::any_of(node.outputs.begin(), node.outputs.end(),
                          [&](ValueId v) { return read[v] || program.values[v].into != kNone; });
    if (!live[n]) continue;
    for (const ValueId v : node.inputs) read[v] = true;
  }
  program = keep_nodes(program, live);
  return {};
}

}  // namespace megatron::passes
