#include "passes/fuse_elementwise.hpp"

#include <algorithm>
#include <map>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

constexpr size_t kMaxMembers = 32;  // instructions of one fused node
constexpr size_t kMaxTensors = 16;  // tensors that it reads

class Fuser {
 public:
  explicit Fuser(Program& program)
      : p_(program),
        users_(users_of(program)),
        exported_(exported_values(program)),
        group_(program.nodes.size(), kNone) {
    for (NodeId n = 0; n < program.nodes.size(); ++n) {
      for (const ValueId v : program.nodes[n].outputs) {
        if (program.values[v].into != kNone) writers_[program.values[v].into].push_back(n);
      }
    }
  }

  void run() {
    for (NodeId n = 0; n < p_.nodes.size(); ++n) {
      if (!fusible(p_.nodes[n])) continue;
      group_[n] = static_cast<uint32_t>(members_.size());
      members_.push_back({n});
      for (const ValueId v : p_.nodes[n].inputs) {
        const Value& value = p_.values[v];
        if (value.kind != ValueKind::result || group_[value.producer] == kNone) continue;
        if (group_[value.producer] != group_[n]) try_merge(group_[value.producer], group_[n], n);
      }
    }
    rewrite();
  }

 private:
  bool fusible(const Node& node) const { return node.op->elementwise() && !p_.yields_scalar(node); }

  // Merges group `from` into `to`, whose last member is `anchor`.
  void try_merge(uint32_t from, uint32_t to, NodeId anchor) {
    const Node& a = p_.nodes[members_[from].front()];
    const Node& b = p_.nodes[anchor];
    if (p_.type(a.outputs[0]).dims != p_.type(b.outputs[0]).dims || a.phase != b.phase) return;
    if (members_[from].size() + members_[to].size() > kMaxMembers) return;
    for (const NodeId m : members_[from]) {
      for (const NodeId user : users_[p_.nodes[m].outputs[0]]) {
        if (group_[user] != from && group_[user] != to && user <= anchor) return;
      }
      if (meets_writer(m, from, to, anchor)) return;
    }
    std::vector<NodeId> merged;
    std::merge(members_[from].begin(), members_[from].end(), members_[to].begin(),
               members_[to].end(), std::back_inserter(merged));
    if (tensors_of(merged).size() > kMaxTensors) return;
    for (const NodeId m : members_[from]) group_[m] = to;
    members_[to] = std::move(merged);
    members_[from].clear();
  }

  // Whether another node writes into a parameter or state that member `m` reads or writes, on the
  // way that `m` would move down.
  bool meets_writer(NodeId m, uint32_t from, uint32_t to, NodeId anchor) const {
    const auto overtaken = [&](ValueId v) {
      const Value& value = p_.values[v];
      const auto it = writers_.find(value.into != kNone ? value.into : v);
      return it != writers_.end() &&
             std::any_of(it->second.begin(), it->second.end(), [&](NodeId w) {
               return w > m && w < anchor && group_[w] != from && group_[w] != to;
             });
    };
    const Node& node = p_.nodes[m];
    return std::any_of(node.inputs.begin(), node.inputs.end(), overtaken) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), overtaken);
  }

  // Tensors that the members read and none of them makes, in order of first use.
  std::vector<ValueId> tensors_of(const std::vector<NodeId>& members) const {
    std::vector<ValueId> out;
    for (const NodeId m : members) {
      for (const ValueId v : p_.nodes[m].inputs) {
        const Value& value = p_.values[v];
        const bool inside = value.kind == ValueKind::result &&
                            std::binary_search(members.begin(), members.end(), value.producer);
        if (!inside && !value.type.is_scalar() && std::find(out.begin(), out.end(), v) == out.end())
          out.push_back(v);
      }
    }
    return out;
  }

  // A lone op of tensors. With scalars it becomes an expression, which says which operand is which.
  bool stays(const std::vector<NodeId>& members) const {
    const auto& inputs = p_.nodes[members[0]].inputs;
    return members.size() == 1 && std::none_of(inputs.begin(), inputs.end(),
                                               [&](ValueId v) { return p_.type(v).is_scalar(); });
  }

  Node fuse(const std::vector<NodeId>& members) {
    Node fused = p_.nodes[members.back()];
    fused.op = op("fused");
    fused.attrs.clear();
    fused.inputs = tensors_of(members);
    fused.outputs.clear();
    std::map<ValueId, std::string> names;
    for (size_t i = 0; i < fused.inputs.size(); ++i) names[fused.inputs[i]] = text("i", i);
    std::vector<ValueId> scalars;
    std::string expr;
    std::string results = "out";
    for (size_t t = 0; t < members.size(); ++t) {
      const Node& node = p_.nodes[members[t]];
      expr += text("t", t, " = ", node.op->name, "(");
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (i > 0) expr += ", ";
        expr += operand(node.inputs[i], names, scalars);
      }
      expr += ')';
      if (node.op->name == "dropout") {
        expr += text(" {p = ", float_attr(node.attrs, "p"), ", site = \"",
                     string_attr(node.attrs, "site"), "\"}");
      }
      expr += "; ";
      const ValueId out = node.outputs[0];
      names[out] = text("t", t);
      const bool outside = exported_[out] || p_.values[out].into != kNone ||
                           std::any_of(users_[out].begin(), users_[out].end(),
                                       [&](NodeId u) { return group_[u] != group_[members[0]]; });
      if (outside) {
        results += text(" t", t);
        fused.outputs.push_back(out);
      }
    }
    fused.inputs.insert(fused.inputs.end(), scalars.begin(), scalars.end());
    fused.attrs["expr"] = expr + results;
    fused.attrs["outputs"] = static_cast<int64_t>(fused.outputs.size());
    return fused;
  }

  std::string operand(ValueId v, std::map<ValueId, std::string>& names,
                      std::vector<ValueId>& scalars) const {
    const Value& value = p_.values[v];
    if (value.kind == ValueKind::constant) return text(value.constant);
    const auto it = names.find(v);
    if (it != names.end()) return it->second;
    MGT_CHECK(value.type.is_scalar());
    scalars.push_back(v);
    return names[v] = text("s", scalars.size() - 1);
  }

  void rewrite() {
    std::vector<Node> nodes;
    for (NodeId n = 0; n < p_.nodes.size(); ++n) {
      if (group_[n] == kNone) {
        nodes.push_back(p_.nodes[n]);
        continue;
      }
      const auto& members = members_[group_[n]];
      if (n != members.back()) continue;
      Node node = stays(members) ? p_.nodes[n] : fuse(members);
      if (!node.outputs.empty()) nodes.push_back(std::move(node));  // else nothing reads the chain
    }
    replace_nodes(p_, std::move(nodes));
  }

  Program& p_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> exported_;
  std::map<ValueId, std::vector<NodeId>> writers_;  // of each parameter and state
  std::vector<uint32_t> group_;                     // of each node; kNone = not element-wise
  std::vector<std::vector<NodeId>> members_;        // ascending
};

}  // namespace

Status fuse_elementwise(Program& program) {
  Fuser(program).run();
  return {};
}

}  // namespace megatron::passes
