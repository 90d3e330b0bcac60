#include "passes/partition.hpp"

#include <algorithm>
#include <optional>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "graph/verifier.hpp"
#include "passes/placement_rules.hpp"
#include "passes/redistribute.hpp"
#include "passes/ring_attention.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)
using Kind = Place::Kind;

class Partitioner {
 public:
  Partitioner(const Program& logical, const PartitionRequest& request)
      : in_(logical),
        layout_(*request.layout),
        request_(request),
        rules_(logical, layout_),
        builder_(logical.name),
        moves_(layout_, request.coordinates, builder_),
        parameters_(logical.values.size(), nullptr),
        read_(logical.values.size(), false),
        placed_(logical.values.size()) {
    for (const Node& node : logical.nodes)
      for (const ValueId v : node.inputs) read_[v] = true;
    for (const Parameter& p : logical.parameters) parameters_[p.value] = &p;
  }

  Result<Partitioned> run() {
    MGT_RETURN_IF_ERROR(declare());
    for (const Node& node : in_.nodes) {
      builder_.set_phase(node.phase);
      builder_.set_place(node);
      MGT_RETURN_IF_ERROR(
          place_node(node).context(text("placing node '", node.op->name, "' of ", node.scope)));
    }
    for (const auto& output : in_.outputs)
      MGT_RETURN_IF_ERROR(export_value("output." + output.name, output.value));
    for (const auto& output : in_.outputs) {
      MGT_RETURN_IF_ERROR(builder_.output(output.name, placed_[output.value].id));
    }
    for (const auto& loss : in_.losses) {
      MGT_RETURN_IF_ERROR(export_value(text("loss.", loss.name, ".sum"), loss.sum));
      MGT_RETURN_IF_ERROR(export_value(text("loss.", loss.name, ".count"), loss.count));
      MGT_RETURN_IF_ERROR(
          builder_.loss(loss.name, placed_[loss.sum].id, placed_[loss.count].id, loss.weight));
    }
    builder_.set_place({});  // the last node may lie in a block
    MGT_ASSIGN_OR_RETURN(out_.program, std::move(builder_).finish());
    return std::move(out_);
  }

 private:
  // ---- declarations
  Status declare() {
    for (ValueId v = 0; v < in_.values.size(); ++v) {
      const Value& value = in_.values[v];
      switch (value.kind) {
        case ValueKind::scalar:
          placed_[v] = {builder_.scalar(value.name), value.type, whole()};
          break;
        case ValueKind::constant:
          placed_[v] = {builder_.constant(value.constant), value.type, whole()};
          break;
        case ValueKind::parameter:
          MGT_CHECK(parameters_[v] != nullptr, value.name);
          MGT_RETURN_IF_ERROR(declare_parameter(*parameters_[v]));
          break;
        case ValueKind::state:
          MGT_RETURN_IF_ERROR(declare_state(v));
          break;
        // An input is declared when its first reader says how it must lie.
        case ValueKind::input:
          placed_[v] = {kNone, value.type, whole()};
          break;
        case ValueKind::result:
          break;
      }
    }
    return {};
  }

  Status declare_parameter(const Parameter& parameter) {
    const Value& value = in_.values[parameter.value];
    const Placement placement = parameter_placement(layout_, value.type);
    const Local local = localize(layout_, request_.coordinates, value.type, placement);
    MGT_ASSIGN_OR_RETURN(const ValueId id, builder_.parameter(value.name, local.type,
                                                              parameter.init, parameter.trainable));
    return remember(parameter.value, id, placement, value.name);
  }

  Status declare_state(ValueId v) {
    const Value& value = in_.values[v];
    const auto known = request_.states.find(value.name);
    // A gradient accumulator, which no node of this program reads, is as its writer makes it.
    if (known == request_.states.end() && !read_[v]) return {};
    const Placement placement = known != request_.states.end()
                                    ? known->second
                                    : optimizer_state_placement(layout_, value.type);
    const Local local = localize(layout_, request_.coordinates, value.type, placement);
    MGT_ASSIGN_OR_RETURN(const ValueId id, builder_.state(value.name, local.type));
    return remember(v, id, placement, value.name);
  }

  Status remember(ValueId logical, ValueId id, const Placement& placement,
                  const std::string& name) {
    placed_[logical] = {id, in_.values[logical].type, placement};
    moves_.set_maps(id, in_.values[logical].type, placement);
    out_.placements[name] = placement;
    return {};
  }

  Placement whole() const { return Placement(layout_.axes.size()); }

  // ---- one op
  bool is_tensor(ValueId v) const { return !in_.type(v).is_scalar(); }

  Status place_node(const Node& node) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return is_tensor(v); }))
      return emit(node, {}, std::vector<Placement>(node.outputs.size(), whole()));
    const OpPlacement op = rules_.place(node, placed_);
    if (node.op->name == "resolve") return resolve(node, op);
    return op.ring ? emit_ring(node, op, *op.ring) : emit(node, op.inputs, op.outputs);
  }

  Result<ValueId> read(ValueId v, const Placement& placement) {
    Placed& value = placed_[v];
    if (!is_tensor(v)) return value.id;
    if (in_.values[v].kind == ValueKind::input) return input(v, placement);
    return moves_.move(value, placement, stage());
  }
  int64_t stage() const { return builder_.block(); }

  Result<ValueId> input(ValueId v, const Placement& placement) {
    auto& known = inputs_[{v, placement}];
    if (known != 0) return known - 1;
    const Value& value = in_.values[v];
    const Local local = localize(layout_, request_.coordinates, value.type, placement);
    int copies = 0;
    for (const auto& [key, id] : inputs_) copies += key.first == v && id != 0 ? 1 : 0;
    const std::string name = copies == 0 ? value.name : text(value.name, "#", copies);
    MGT_ASSIGN_OR_RETURN(const ValueId id, builder_.input(name, local.type));
    moves_.set_maps(id, value.type, placement);
    known = id + 1;
    return id;
  }

  Status emit(const Node& node, const std::vector<Placement>& inputs,
              const std::vector<Placement>& outputs) {
    std::vector<ValueId> ids;
    const size_t operands = node.inputs.size() - (node.accumulate_mask != 0 ? 1 : 0);
    for (size_t i = 0; i < operands; ++i) {
      if (!is_tensor(node.inputs[i])) {
        ids.push_back(placed_[node.inputs[i]].id);
        continue;
      }
      MGT_ASSIGN_OR_RETURN(const ValueId id, read(node.inputs[i], inputs[i]));
      ids.push_back(id);
    }
    Attrs attrs = node.attrs;
    if (attrs.contains("vocab")) {  // embedding_grad: rows that this rank holds
      attrs["vocab"] =
          localize(layout_, request_.coordinates, in_.type(node.outputs[0]), outputs[0])
              .type.dims[0]
              .size;
    }
    MGT_ASSIGN_OR_RETURN(const auto results,
                         builder_.op(node.op->name, std::move(ids), std::move(attrs)));
    for (size_t o = 0; o < results.size(); ++o) {
      const ValueId v = node.outputs[o];
      placed_[v] = {results[o], in_.type(v), outputs[o]};
      if (is_tensor(v)) moves_.set_maps(results[o], in_.type(v), outputs[o]);
    }
    return write_results(node);
  }

  // The operand moved to the node's placement, in the memory of its target. Where it lies there
  // already no node is needed, and the target is the operand's memory.
  Status resolve(const Node& node, const OpPlacement& op) {
    MGT_ASSIGN_OR_RETURN(const ValueId id, read(node.inputs[0], op.inputs[0]));
    const ValueId v = node.outputs[0];
    const ValueId target = in_.values[v].into;
    MGT_CHECK(target != kNone, "resolve writes to a state");
    placed_[v] = {id, in_.type(v), op.inputs[0]};
    const std::string& name = in_.values[target].name;
    out_.placements[name] = op.inputs[0];
    Program& p = builder_.program();
    if (p.values[id].kind == ValueKind::state) return {};
    const Local local = localize(layout_, request_.coordinates, in_.type(v), op.inputs[0]);
    MGT_ASSIGN_OR_RETURN(const ValueId home, builder_.state(name, local.type));
    p.values[id].into = home;
    return remember(target, home, op.inputs[0], name);
  }

  // Results that live in a parameter or state.
  Status write_results(const Node& node) {
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      const ValueId target = in_.values[v].into;
      if (target == kNone) continue;
      const bool adds = ((node.accumulate_mask >> o) & 1) != 0;
      MGT_RETURN_IF_ERROR(adds ? accumulate(v, target, placed_[node.inputs.back()].id)
                               : overwrite(v, target));
    }
    return {};
  }

  Status accumulate(ValueId v, ValueId target, ValueId flag) {
    Placed& value = placed_[v];
    if (placed_[target].id == kNone) {
      const Placement placement = gradient_placement(target, value.placement);
      const Local local = localize(layout_, request_.coordinates, value.logical, placement);
      MGT_ASSIGN_OR_RETURN(const ValueId id, builder_.state(in_.values[target].name, local.type));
      MGT_RETURN_IF_ERROR(remember(target, id, placement, in_.values[target].name));
    }
    MGT_ASSIGN_OR_RETURN(ValueId id, moves_.move(value, placed_[target].placement, stage()));
    Program& p = builder_.program();
    const auto can_add = [&](ValueId candidate) {
      const Node& producer = p.nodes[p.values[candidate].producer];
      const auto o = std::find(producer.outputs.begin(), producer.outputs.end(), candidate) -
                     producer.outputs.begin();
      return ((producer.op->accumulates >> o) & 1) != 0;
    };
    if (!can_add(id)) {
      id = builder_.op1("sum", {id}, {{"keep", static_cast<int64_t>(p.type(id).rank())}});
      moves_.set_maps(id, value.logical, placed_[target].placement);
    }
    p.values[id].into = placed_[target].id;
    Node& producer = p.nodes[p.values[id].producer];
    const auto o =
        std::find(producer.outputs.begin(), producer.outputs.end(), id) - producer.outputs.begin();
    if (producer.accumulate_mask == 0) producer.inputs.push_back(flag);
    producer.accumulate_mask |= uint64_t{1} << o;
    return {};
  }

  // A gradient stays as its op makes it until the step's last micro-batch; from ZeRO-2 on it is
  // reduced at once to the shard that its optimizer states have.
  Placement gradient_placement(ValueId target, Placement made) const {
    const auto m = layout_.axis(layout_.zero_axis);
    if (m && layout_.zero_stage >= 2)
      made[*m] = optimizer_state_placement(layout_, in_.type(target))[*m];
    return made;
  }

  Status overwrite(ValueId v, ValueId target) {
    const Placed value = placed_[v];
    MGT_ASSIGN_OR_RETURN(ValueId id, moves_.move(value, placed_[target].placement, stage()));
    Program& p = builder_.program();
    if (p.values[id].kind != ValueKind::result || p.values[id].into != kNone)
      id = builder_.op1("copy", {id});
    p.values[id].into = placed_[target].id;
    return {};
  }

  Status export_value(const std::string& name, ValueId v) {
    Placement placement = placed_[v].placement;
    for (size_t m = 0; m < placement.size(); ++m) {
      // Partial sums may stay, for the host to add up; everything else is handed out whole.
      const bool sum = placement[m].is(Kind::partial) && placement[m].reduce == Reduce::sum;
      if (request_.whole_outputs || !sum) placement[m] = Place::replicate();
    }
    if (is_tensor(v)) {
      MGT_ASSIGN_OR_RETURN(const ValueId id, read(v, placement));
      placed_[v] = {id, in_.type(v), placement};
    }
    out_.placements[name] = placement;
    return {};
  }

  Status emit_ring(const Node& node, const OpPlacement& op, size_t m) {
    std::vector<ValueId> ids;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      MGT_ASSIGN_OR_RETURN(const ValueId id, read(node.inputs[i], op.inputs[i]));
      ids.push_back(id);
    }
    const auto held_by = [&](int64_t rank, size_t operand) {
      auto coordinates = request_.coordinates;
      coordinates[m] = rank;
      return localize(layout_, coordinates, in_.type(node.inputs[operand]), op.inputs[operand])
          .maps;
    };
    const Ring ring{layout_.axes[m].name, layout_.axes[m].size, request_.coordinates[m], held_by};
    const auto results = node.op->name == "attention"
                             ? ring_attention(builder_, ring, ids, node.attrs)
                             : ring_attention_grad(builder_, ring, ids, node.attrs);
    for (size_t o = 0; o < results.size(); ++o) {
      placed_[node.outputs[o]] = {results[o], in_.type(node.outputs[o]), op.outputs[o]};
      moves_.set_maps(results[o], in_.type(node.outputs[o]), op.outputs[o]);
    }
    return {};
  }

  const Program& in_;
  const Layout& layout_;
  const PartitionRequest& request_;
  PlacementRules rules_;
  ProgramBuilder builder_;
  Redistributor moves_;
  std::vector<const Parameter*> parameters_;                 // of each logical value, or null
  std::vector<bool> read_;                                   // of each: some node reads it
  std::vector<Placed> placed_;                               // of each logical value
  std::map<std::pair<ValueId, Placement>, ValueId> inputs_;  // id + 1
  Partitioned out_;
};

}  // namespace

Result<Partitioned> partition(const graph::Program& logical, const PartitionRequest& request) {
  return Partitioner(logical, request).run();
}

}  // namespace megatron::passes
