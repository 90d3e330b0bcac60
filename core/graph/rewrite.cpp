#include "graph/rewrite.hpp"

#include <algorithm>

namespace megatron::graph {

Program keep_nodes(const Program& program, const std::vector<bool>& live) {
  std::vector<bool> read = exported_values(program);
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    if (!live[n]) continue;
    for (const ValueId v : program.nodes[n].inputs) read[v] = true;
    for (const ValueId v : program.nodes[n].outputs) read[v] = true;
  }
  Program out;
  out.name = program.name;
  std::vector<ValueId> renamed(program.values.size(), kNone);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    const bool declared = value.kind == ValueKind::parameter || value.kind == ValueKind::state ||
                          value.kind == ValueKind::input;
    if (!declared && !read[v]) continue;
    renamed[v] = out.add_value(value);
  }
  for (auto& value : out.values) {
    if (value.into != kNone) value.into = renamed[value.into];
  }
  const auto rename = [&](std::vector<ValueId> ids) {
    for (auto& id : ids) id = renamed[id];
    return ids;
  };
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    if (!live[n]) continue;
    Node node = program.nodes[n];
    node.inputs = rename(std::move(node.inputs));
    node.outputs = rename(std::move(node.outputs));
    for (const ValueId v : node.outputs)
      out.values[v].producer = static_cast<NodeId>(out.nodes.size());
    out.nodes.push_back(std::move(node));
  }
  for (auto p : program.parameters) {
    p.value = renamed[p.value];
    out.parameters.push_back(p);
  }
  for (auto o : program.outputs) {
    o.value = renamed[o.value];
    out.outputs.push_back(std::move(o));
  }
  for (auto l : program.losses) {
    l.sum = renamed[l.sum];
    l.count = renamed[l.count];
    out.losses.push_back(std::move(l));
  }
  return out;
}

std::vector<std::vector<NodeId>> users_of(const Program& program) {
  std::vector<std::vector<NodeId>> users(program.values.size());
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    for (const ValueId v : program.nodes[n].inputs) {
      if (users[v].empty() || users[v].back() != n) users[v].push_back(n);
    }
  }
  return users;
}

std::vector<bool> exported_values(const Program& program) {
  std::vector<bool> exported(program.values.size(), false);
  for (const auto& o : program.outputs) exported[o.value] = true;
  for (const auto& l : program.losses) exported[l.sum] = exported[l.count] = true;
  return exported;
}

void replace_uses(Program& program, ValueId from, ValueId to) {
  for (auto& node : program.nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  for (auto& o : program.outputs) {
    if (o.value == from) o.value = to;
  }
  for (auto& l : program.losses) {
    if (l.sum == from) l.sum = to;
    if (l.count == from) l.count = to;
  }
}

}  // namespace megatron::graph
