#include "train/tied_gradients.hpp"

#include <algorithm>
#include <set>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "graph/verifier.hpp"
#include "passes/autodiff.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

// "grad.w@1" -> "w"
std::string_view parameter_of(std::string_view state) {
  state.remove_prefix(passes::kGradientPrefix.size());
  return state.substr(0, state.rfind('@'));
}

Node message(std::string_view op_name, const std::string& axis, int64_t peer,
             const std::string& tag) {
  Node node;
  node.op = op(op_name);
  node.attrs = {{"axis", axis}, {"peer", peer}, {"tag", tag}};
  node.phase = Phase::update;
  return node;
}

}  // namespace

TiedUses tied_uses(const Program& train, const passes::PipelineCut& cut) {
  std::map<std::string, std::set<int64_t>, std::less<>> holders;
  TiedUses out;
  for (const Node& node : train.nodes) {
    const int64_t rank = cut.stage_of(node) % cut.ranks;
    for (const ValueId v : node.inputs) {
      if (train.values[v].kind == ValueKind::parameter) holders[train.values[v].name].insert(rank);
    }
    for (const ValueId v : node.outputs) {
      const ValueId home = train.values[v].into;
      if (home != kNone) out.writer[train.values[home].name] = rank;
    }
  }
  for (const auto& [name, ranks] : holders) out.holders[name].assign(ranks.begin(), ranks.end());
  return out;
}

Status exchange_tied(Program& reduce, const TiedUses& uses, const std::string& axis, int64_t rank) {
  std::vector<Node> sends;
  std::vector<Node> receives;
  for (const ValueId state : std::vector<ValueId>(reduce.states)) {
    const std::string name = reduce.values[state].name;
    const auto writer = uses.writer.find(name);
    if (writer == uses.writer.end()) continue;  // a result of this program
    const auto holders = uses.holders.find(parameter_of(name));
    MGT_CHECK(holders != uses.holders.end(), name);
    if (writer->second != rank) {
      Node node = message("recv", axis, writer->second, name);
      node.attrs["dtype"] = std::string(dtype_name(reduce.type(state).dtype));
      type_to_attrs(reduce.type(state), node.attrs);
      Value value;
      value.name = name + "@recv";
      value.type = reduce.type(state);
      value.maps = reduce.values[state].maps;
      const ValueId received = reduce.add_value(std::move(value));
      node.outputs = {received};
      receives.push_back(std::move(node));
      replace_uses(reduce, state, received);
      continue;
    }
    for (const int64_t reader : holders->second) {
      if (reader == rank) continue;
      Node node = message("send", axis, reader, name);
      node.inputs = {state};
      sends.push_back(std::move(node));
    }
  }
  std::vector<Node> nodes = std::move(sends);
  nodes.insert(nodes.end(), receives.begin(), receives.end());
  nodes.insert(nodes.end(), reduce.nodes.begin(), reduce.nodes.end());
  reduce.nodes = std::move(nodes);
  reduce = drop_unused(std::move(reduce));
  return verify(reduce).context("exchanging the gradients of tied parameters");
}

}  // namespace megatron::train
