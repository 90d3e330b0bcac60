#include "graph/verifier.hpp"

#include <unordered_set>

#include "graph/op.hpp"

namespace megatron::graph {
namespace {

std::string describe(const Program& program, const Node& node) {
  std::string out = text("node '", node.op->name, "'");
  if (!node.outputs.empty() && node.outputs[0] < program.values.size())
    out += " making %" + program.values[node.outputs[0]].name;
  if (!node.scope.empty()) out += " in " + node.scope;
  return out;
}

// The parameter or state whose memory holds a value; kNone when it has memory of its own.
ValueId home_of(const Program& program, ValueId v) {
  const Value& value = program.values[v];
  if (value.kind == ValueKind::parameter || value.kind == ValueKind::state) return v;
  return value.into;
}

// After a node wrote into a parameter or state, what was there before is gone: only the new value
// may be read. A node may read the old and write the new one.
class Memory {
 public:
  explicit Memory(const Program& program) : program_(program), holds_(program.values.size()) {
    for (ValueId v = 0; v < holds_.size(); ++v) holds_[v] = v;
  }
  // The value that has taken the place of `v`; kNone while `v` is there.
  ValueId lost(ValueId v) const {
    const ValueId home = home_of(program_, v);
    return home == kNone || holds_[home] == v ? kNone : holds_[home];
  }
  void write(ValueId v) {
    if (program_.values[v].into != kNone) holds_[program_.values[v].into] = v;
  }

 private:
  const Program& program_;
  std::vector<ValueId> holds_;  // of each parameter and state
};

Status verify_node(const Program& program, NodeId id, const std::vector<bool>& defined,
                   const Memory& memory) {
  const Node& node = program.nodes[id];
  const auto fail = [&](std::string_view fact) {
    return internal_error(
        text("program '", program.name, "': ", describe(program, node), " ", fact));
  };
  std::vector<Type> inputs;
  for (const ValueId v : node.inputs) {
    if (v >= program.values.size()) return fail(text("reads value ", v, ", which does not exist"));
    if (!defined[v]) return fail(text("reads %", program.values[v].name, " before it is made"));
    if (const ValueId now = memory.lost(v); now != kNone) {
      return fail(text("reads %", program.values[v].name, " after %", program.values[now].name,
                       " was written in its place"));
    }
    inputs.push_back(program.type(v));
  }
  if (node.accumulate_mask != 0) {
    if (inputs.empty() || !inputs.back().is_scalar())
      return fail("accumulates but its last operand is not a scalar");
    inputs.pop_back();
  }
  if ((node.accumulate_mask & ~node.op->accumulates) != 0) return fail("cannot accumulate");
  Attrs attrs = node.attrs;
  auto types = infer_types(*node.op, attrs, inputs);
  if (!types.ok()) return fail(text("does not type-check: ", types.status().message()));
  if (types->size() != node.outputs.size()) {
    return fail(text("has ", node.outputs.size(), " results where the op has ", types->size()));
  }
  for (size_t o = 0; o < types->size(); ++o) {
    if (node.outputs[o] >= program.values.size())
      return fail(text("makes value ", node.outputs[o], ", which does not exist"));
    const Value& out = program.values[node.outputs[o]];
    if (out.producer != id) return fail(text("is not the producer of %", out.name));
    if (!(out.type == (*types)[o])) {
      return fail(text("makes %", out.name, " of type ", to_string(out.type),
                       " where the op infers ", to_string((*types)[o])));
    }
    if (((node.accumulate_mask >> o) & 1) != 0 && out.into == kNone)
      return fail("accumulates into nothing");
    if (out.into != kNone) {
      if (out.into >= program.values.size())
        return fail(text("writes into value ", out.into, ", which does not exist"));
      const Value& target = program.values[out.into];
      if (target.kind != ValueKind::parameter && target.kind != ValueKind::state) {
        return fail(
            text("writes into %", target.name, ", which is neither a parameter nor a state"));
      }
      if (target.type.bytes() != out.type.bytes()) {
        return fail(text("writes ", to_string(out.type), " into %", target.name, " of type ",
                         to_string(target.type)));
      }
    }
  }
  return {};
}

}  // namespace

Status verify(const Program& program) {
  std::unordered_set<std::string_view> names;
  std::vector<bool> defined(program.values.size(), false);
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    if (!names.insert(value.name).second) {
      return internal_error(
          text("program '", program.name, "': the name %", value.name, " is used twice"));
    }
    if (!value.maps.empty()) {
      if (value.maps.size() != value.type.rank()) {
        return internal_error(text("program '", program.name, "': %", value.name, " has ",
                                   value.maps.size(), " index maps for rank ", value.type.rank()));
      }
      for (size_t d = 0; d < value.maps.size(); ++d) {
        if (value.maps[d].local_size() != value.type.dims[d].size) {
          return internal_error(text("program '", program.name, "': dimension ", d, " of %",
                                     value.name, " has size ", value.type.dims[d].size,
                                     " and a map of ", value.maps[d].local_size()));
        }
      }
    }
    defined[v] = value.kind != ValueKind::result;
    if (value.kind == ValueKind::result && (value.producer >= program.nodes.size())) {
      return internal_error(text("program '", program.name, "': nothing makes %", value.name));
    }
  }
  Memory memory(program);
  for (NodeId n = 0; n < program.nodes.size(); ++n) {
    MGT_RETURN_IF_ERROR(verify_node(program, n, defined, memory));
    for (const ValueId v : program.nodes[n].outputs) {
      defined[v] = true;
      memory.write(v);
    }
  }
  for (const auto& output : program.outputs) {
    if (output.value >= program.values.size() || !defined[output.value]) {
      return internal_error(
          text("program '", program.name, "': output '", output.name, "' is not made"));
    }
    if (const ValueId now = memory.lost(output.value); now != kNone) {
      return internal_error(text("program '", program.name, "': output '", output.name, "' is %",
                                 program.values[output.value].name, ", and %",
                                 program.values[now].name, " was written in its place"));
    }
  }
  for (const auto& loss : program.losses) {
    for (const ValueId v : {loss.sum, loss.count}) {
      if (v >= program.values.size() || !defined[v]) {
        return internal_error(
            text("program '", program.name, "': loss '", loss.name, "' is not made"));
      }
      if (program.type(v) != Type{DType::f32, {}}) {
        return invalid_argument(text("loss '", loss.name, "' of program '", program.name,
                                     "' has the type ", to_string(program.type(v))),
                                "a loss term is a sum and a count f32[] on the device",
                                "reduce it with ops::linear_cross_entropy or the op 'sum'");
      }
    }
  }
  return {};
}

}  // namespace megatron::graph
