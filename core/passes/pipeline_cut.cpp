#include "passes/pipeline_cut.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "graph/verifier.hpp"

namespace megatron::passes {

using namespace graph;  // NOLINT(google-build-using-namespace)

int64_t PipelineCut::stage_of(const Node& node) const {
  int64_t stage = 0;
  while (stage + 1 < stages() && first_block[static_cast<size_t>(stage) + 1] <= node.block) ++stage;
  return stage;
}

PipelineCut even_cut(std::string axis, int64_t blocks, int64_t stages) {
  PipelineCut cut{std::move(axis), {}};
  int64_t next = 0;
  for (int64_t s = 0; s < stages; ++s) {
    cut.first_block.push_back(next);
    next += blocks / stages + (s < blocks % stages ? 1 : 0);
  }
  return cut;
}

Result<Program> cut_stage(const Program& program, const PipelineCut& cut, int64_t stage) {
  // Which stages read each value that a node makes.
  std::vector<std::set<int64_t>> readers(program.values.size());
  for (const auto& node : program.nodes) {
    for (const ValueId v : node.inputs) {
      if (!program.type(v).is_scalar()) readers[v].insert(cut.stage_of(node));
    }
  }
  Program out = program;
  std::vector<Node> nodes;
  std::map<ValueId, ValueId> received;
  const auto message = [&](std::string_view op_name, const Node& like, int64_t peer,
                           const std::string& tag) {
    Node node;
    node.op = op(op_name);
    node.attrs = {{"axis", cut.axis}, {"peer", peer}, {"tag", tag}};
    node.scope = like.scope;
    node.block = like.block;
    node.phase = like.phase;
    return node;
  };
  for (const auto& original : program.nodes) {
    const int64_t at = cut.stage_of(original);
    const bool scalar_node =
        !original.outputs.empty() && program.type(original.outputs[0]).is_scalar();
    Node node = original;
    if (at == stage || scalar_node) {
      for (auto& v : node.inputs) {
        if (const auto it = received.find(v); it != received.end()) v = it->second;
      }
      nodes.push_back(node);
    }
    if (scalar_node) continue;
    for (const ValueId v : original.outputs) {
      const std::string& tag = program.values[v].name;
      for (const int64_t reader : readers[v]) {
        if (reader == at) continue;
        if (at == stage) {
          Node send = message("send", original, reader, tag);
          send.inputs = {v};
          nodes.push_back(std::move(send));
        } else if (reader == stage) {
          Node recv = message("recv", original, at, tag);
          recv.attrs["dtype"] = std::string(dtype_name(program.type(v).dtype));
          type_to_attrs(program.type(v), recv.attrs);
          Value value;
          value.name = program.values[v].name + "@recv";
          value.type = program.type(v);
          value.maps = program.values[v].maps;
          const ValueId id = out.add_value(std::move(value));
          recv.outputs = {id};
          received[v] = id;
          nodes.push_back(std::move(recv));
        }
      }
    }
  }
  out.nodes = std::move(nodes);
  out = drop_unused(std::move(out));
  MGT_RETURN_IF_ERROR(verify(out).context(text("cutting pipeline stage ", stage)));
  return out;
}

}  // namespace megatron::passes
