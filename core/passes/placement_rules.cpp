#include "passes/placement_rules.hpp"

#include <algorithm>

#include "graph/op.hpp"

namespace megatron::passes {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)
using Kind = Place::Kind;

bool is_attention(const Node& node) {
  return node.op->name == "attention" || node.op->name == "attention_grad";
}

// Whether partial operands may stay partial; the results are then partial sums.
bool passes_partial(const OpDef& op, const std::vector<size_t>& tensors,
                    const std::vector<Place>& inputs) {
  std::vector<size_t> partial;
  for (const size_t i : tensors) {
    if (!inputs[i].is(Kind::partial)) continue;
    if (inputs[i].reduce != Reduce::sum) return false;
    partial.push_back(i);
  }
  if (partial.empty()) return false;
  if (op.jointly_linear) return partial.size() == tensors.size() && tensors.size() == inputs.size();
  const bool others_whole = std::all_of(tensors.begin(), tensors.end(), [&](size_t i) {
    return inputs[i].is(Kind::partial) || inputs[i].is(Kind::replicate);
  });
  return partial.size() == 1 && ((op.linear >> partial[0]) & 1) != 0 && others_whole;
}

}  // namespace

OpPlacement PlacementRules::place(const Node& node, std::span<const Placed> placed) const {
  const Labels labels = labels_of(in_, node);
  const Placement whole(layout_.axes.size());
  OpPlacement out{std::vector<Placement>(labels.inputs.size(), whole),
                  std::vector<Placement>(node.outputs.size(), whole),
                  {}};
  for (size_t m = 0; m < layout_.axes.size(); ++m) {
    if (layout_.axes[m].size == 1) continue;
    const bool ring = layout_.ring_axis == layout_.axes[m].name && is_attention(node);
    if (ring) out.ring = m;
    const Decision d = ring ? around_ring(node) : decide(node, labels, placed, m);
    for (size_t i = 0; i < out.inputs.size(); ++i) out.inputs[i][m] = d.inputs[i];
    for (size_t o = 0; o < out.outputs.size(); ++o) out.outputs[o][m] = d.outputs[o];
  }
  return out;
}

std::vector<size_t> PlacementRules::tensor_operands(const Node& node, size_t count) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < count; ++i) {
    if (!in_.type(node.inputs[i]).is_scalar()) out.push_back(i);
  }
  return out;
}

// The mapping of a dimension's axis to mesh axis m; null when it has none.
const AxisMapping* PlacementRules::mapping_of(const std::string& axis, size_t m) const {
  return axis.empty() ? nullptr : layout_.mapping(axis, layout_.axes[m].name);
}

PlacementRules::Decision PlacementRules::decide(const Node& node, const Labels& labels,
                                                std::span<const Placed> placed, size_t m) const {
  const OpDef& op = *node.op;
  Decision d;
  d.inputs.assign(labels.inputs.size(), Place::replicate());
  d.outputs.assign(node.outputs.size(), Place::replicate());
  const auto tensors = tensor_operands(node, d.inputs.size());
  for (const size_t i : tensors) {
    const ValueId v = node.inputs[i];
    // Inputs take the placement that their axes ask for; it may be overruled below at no cost.
    d.inputs[i] = in_.values[v].kind == ValueKind::input ? stored_placement(layout_, in_.type(v))[m]
                                                         : placed[v].placement[m];
  }
  if (op.name == "resolve") {  // of a gradient: the whole, or the flat cut of its states
    const Place stored = optimizer_state_placement(layout_, in_.type(node.inputs[0]))[m];
    if (d.inputs[0].is(Kind::partial))
      d.inputs[0] = stored.is(Kind::flat) ? stored : Place::replicate();
    d.outputs[0] = d.inputs[0];
    return d;
  }
  if (const auto made = made_dimension(node, labels, m)) {  // every operand is needed whole
    for (const size_t i : tensors) d.inputs[i] = Place::replicate();
    d.outputs[0] = Place::shard(*made);
    return d;
  }
  if (op.joins_partials) {
    const bool any = std::any_of(tensors.begin(), tensors.end(),
                                 [&](size_t i) { return d.inputs[i].is(Kind::partial); });
    const Place place = any ? Place::partial() : Place::replicate();
    for (const size_t i : tensors) d.inputs[i] = place;
    for (auto& o : d.outputs) o = place;
    return d;
  }
  if (passes_partial(op, tensors, d.inputs)) {
    for (auto& o : d.outputs) o = Place::partial();
    return d;
  }
  for (const size_t i : tensors) {
    if (d.inputs[i].is(Kind::partial)) d.inputs[i] = resolved(placed[node.inputs[i]], m);
  }
  if (decide_flat(node, tensors, d)) return d;

  const auto label = choose_label(node, labels, tensors, d, m);
  const auto cut_here = [&](Label l) {
    if (!label) return false;
    if (l == *label) return true;
    const auto& c = op.coupled;
    return !c.empty() && c.find(labels.letters[l]) != std::string_view::npos &&
           c.find(labels.letters[*label]) != std::string_view::npos;
  };
  const auto cut_place = [&](const std::vector<Label>& ls) -> std::optional<Place> {
    for (size_t dim = 0; dim < ls.size(); ++dim) {
      if (cut_here(ls[dim])) return Place::shard(static_cast<int>(dim));
    }
    return std::nullopt;
  };
  for (const size_t i : tensors)
    d.inputs[i] = cut_place(labels.inputs[i]).value_or(Place::replicate());
  for (size_t o = 0; o < d.outputs.size(); ++o) {
    if (!label) continue;
    d.outputs[o] =
        cut_place(labels.outputs[o]).value_or(Place::partial(o == 0 ? op.reduce : Reduce::sum));
  }
  return d;
}

// Attention around a ring: everything is cut along its sequence, dimension 1 of q, k, v, out and 2
// of the log-sum-exp.
PlacementRules::Decision PlacementRules::around_ring(const Node& node) const {
  const auto sequence = [&](ValueId v) { return Place::shard(in_.type(v).rank() == 3 ? 2 : 1); };
  Decision d;
  for (const ValueId v : node.inputs) d.inputs.push_back(sequence(v));
  for (const ValueId v : node.outputs) d.outputs.push_back(sequence(v));
  return d;
}

// Where a partial value goes when its reader cannot take it: a shard of a dimension that is mapped
// to the axis, or the whole.
Place PlacementRules::resolved(const Placed& value, size_t m) const {
  if (value.placement[m].reduce != Reduce::sum) return Place::replicate();
  for (size_t d = 0; d < value.logical.rank(); ++d) {
    const auto* mapping = mapping_of(value.logical.dims[d].axis, m);
    if (mapping == nullptr || mapping->instances) continue;
    const auto order = layout_.nesting(value.logical.dims[d].axis);
    const auto here = std::find(order.begin(), order.end(), m);
    const bool taken = std::any_of(here, order.end(), [&](size_t inner) {
      return inner != m && value.placement[inner] == Place::shard(static_cast<int>(d));
    });
    if (!taken) return Place::shard(static_cast<int>(d));
  }
  return Place::replicate();
}

// A dimension that the op itself makes (the vocabulary of embedding_grad) is made as its parameter
// lies.
std::optional<int> PlacementRules::made_dimension(const Node& node, const Labels& labels,
                                                  size_t m) const {
  if (node.op->pattern.empty() || node.op->infer == nullptr) return std::nullopt;
  const Place stored = stored_placement(layout_, in_.type(node.outputs[0]))[m];
  if (!stored.is(Kind::shard)) return std::nullopt;
  const Label l = labels.outputs[0][static_cast<size_t>(stored.dim)];
  const bool read = std::any_of(
      labels.inputs.begin(), labels.inputs.end(),
      [&](const std::vector<Label>& in) { return std::find(in.begin(), in.end(), l) != in.end(); });
  return read ? std::nullopt : std::optional(stored.dim);
}

// Element-wise ops and square sums work on flat shards as they are.
bool PlacementRules::decide_flat(const Node& node, const std::vector<size_t>& tensors,
                                 Decision& d) const {
  const bool any = std::any_of(tensors.begin(), tensors.end(),
                               [&](size_t i) { return d.inputs[i].is(Kind::flat); });
  if (!any) return false;
  const bool reduces = node.op->name == "sum_squares";
  const Type& shape = in_.type(node.inputs[tensors[0]]);
  const bool alike = std::all_of(tensors.begin(), tensors.end(), [&](size_t i) {
    return in_.type(node.inputs[i]).dims == shape.dims || in_.type(node.inputs[i]).rank() == 0;
  });
  if (!reduces && !(node.op->elementwise() && alike && node.op->name != "dropout")) return false;
  for (const size_t i : tensors) {
    d.inputs[i] = in_.type(node.inputs[i]).rank() == 0 ? Place::replicate() : Place::flat();
  }
  for (auto& o : d.outputs) o = reduces ? Place::partial() : Place::flat();
  return true;
}

// The label that is cut: of those that an operand brings, one that a primary mapping put there.
std::optional<Label> PlacementRules::choose_label(const Node& node, const Labels& labels,
                                                  const std::vector<size_t>& tensors,
                                                  const Decision& d, size_t m) const {
  if (layout_.all_to_all_axis == layout_.axes[m].name && is_attention(node)) {
    const auto heads = std::find(labels.letters.begin(), labels.letters.end(), 'n');
    return static_cast<Label>(heads - labels.letters.begin());
  }
  std::optional<Label> best;
  bool best_primary = false;
  for (const size_t i : tensors) {
    if (!d.inputs[i].is(Kind::shard)) continue;
    const auto dim = static_cast<size_t>(d.inputs[i].dim);
    const Label l = labels.inputs[i][dim];
    if (node.op->whole.find(labels.letters[l]) != std::string_view::npos) continue;
    const auto* mapping = mapping_of(in_.type(node.inputs[i]).dims[dim].axis, m);
    const bool primary = mapping != nullptr && !mapping->secondary;
    if (!best || (primary && !best_primary)) {
      best = l;
      best_primary = primary;
    }
  }
  return best;
}

}  // namespace megatron::passes
