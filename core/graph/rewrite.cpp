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

void replace_nodes(Program& program, std::vector<Node> nodes) {
  program.nodes = std::move(nodes);
  std::vector<bool> made(program.values.size(), false);
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    for (const ValueId v : program.nodes[n].outputs) {
      program.values[v].producer = n;
      made[v] = true;
    }
  }
  // keep_nodes drops constants that nothing reads.
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (program.values[v].kind == ValueKind::result && !made[v])
      program.values[v].kind = ValueKind::constant;
  }
  program = keep_nodes(program, std::vector<bool>(program.nodes.size(), true));
}

Program drop_unused(Program program) {
  std::vector<bool> made(program.values.size(), false);
  std::vector<bool> used(program.values.size(), false);
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    for (const ValueId v : program.nodes[n].outputs) {
      program.values[v].producer = n;
      made[v] = true;
      if (program.values[v].into != kNone) used[program.values[v].into] = true;
    }
    for (const ValueId v : program.nodes[n].inputs) used[v] = true;
  }
  const auto gone = [&](ValueId v) {
    return program.values[v].kind == ValueKind::result ? !made[v] : !used[v];
  };
  std::erase_if(program.outputs, [&](const Output& o) { return gone(o.value); });
  std::erase_if(program.losses, [&](const LossTerm& l) { return gone(l.sum) || gone(l.count); });
  std::erase_if(program.parameters, [&](const Parameter& p) { return gone(p.value); });
  // keep_nodes drops constants that nothing reads.
  for (ValueId v = 0; v < program.values.size(); ++v) {
    if (gone(v)) program.values[v].kind = ValueKind::constant;
  }
  return keep_nodes(program, std::vector<bool>(program.nodes.size(), true));
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
