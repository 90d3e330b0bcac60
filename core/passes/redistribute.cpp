#include "passes/redistribute.hpp"

namespace megatron::passes {

using graph::Attrs;
using graph::Reduce;
using graph::Type;
using graph::ValueId;
using Kind = Place::Kind;

Cut Redistributor::cut(size_t axis, const Type& logical, int dim) const {
  const auto* mapping = layout_.mapping(logical.dims[static_cast<size_t>(dim)].axis, name(axis));
  return mapping != nullptr ? mapping->cut : Cut::contiguous;
}

ValueId Redistributor::emit(std::string_view op, ValueId input, Attrs attrs) {
  return builder_.op1(op, {input}, std::move(attrs));
}

void Redistributor::set_maps(ValueId id, const Type& logical, const Placement& placement) {
  auto local = localize(layout_, coordinates_, logical, placement);
  auto& value = builder_.program().values[id];
  MGT_CHECK(value.type.dims.size() == local.type.dims.size(), to_string(value.type));
  for (size_t d = 0; d < local.type.rank(); ++d) {
    MGT_CHECK(value.type.dims[d].size == local.type.dims[d].size,
              text(to_string(value.type), " should be ", to_string(local.type)));
  }
  const bool whole = std::all_of(local.maps.begin(), local.maps.end(),
                                 [](const IndexMap& m) { return m.is_identity(); });
  value.maps = whole ? std::vector<IndexMap>() : std::move(local.maps);
}

// log Σ exp(x) over ranks, by the maximum, so that nothing overflows: communication knows sums and
// maxima.
ValueId Redistributor::log_sum_exp(ValueId x, const std::string& axis) {
  const ValueId highest = emit("all_reduce", x, {{"axis", axis}, {"reduce", std::string("max")}});
  const ValueId share = builder_.op1("exp", {builder_.op1("sub", {x, highest})});
  const ValueId sum = emit("all_reduce", share, {{"axis", axis}, {"reduce", std::string("sum")}});
  return builder_.op1("add", {builder_.op1("log", {sum}), highest});
}

Result<ValueId> Redistributor::step(const Placed& v, size_t m, const Place& to) {
  const Place& from = v.placement[m];
  Placement after = v.placement;
  after[m] = to;
  const auto target = [&] { return localize(layout_, coordinates_, v.logical, after); };
  const auto axis = std::string(name(m));
  const int64_t index = coordinates_[m];
  const auto cut_attrs = [&](int dim) {
    return Attrs{{"dim", int64_t{dim}}, {"cut", static_cast<int64_t>(cut(m, v.logical, dim))}};
  };
  const auto all_reduce = [&](Reduce reduce) {
    return emit("all_reduce", v.id,
                {{"axis", axis}, {"reduce", std::string(graph::reduce_name(reduce))}});
  };
  if (from.is(Kind::replicate)) {
    switch (to.kind) {
      case Kind::shard: {
        auto attrs = cut_attrs(to.dim);
        attrs["parts"] = parts(m);
        attrs["index"] = index;
        return emit("slice", v.id, std::move(attrs));
      }
      case Kind::flat:
        return emit("flat_slice", v.id, {{"parts", parts(m)}, {"index", index}});
      case Kind::partial:
        if (to.reduce != Reduce::sum) break;
        return index == 0 ? v.id : builder_.op1("zeros_like", {v.id});
      case Kind::replicate:
        return v.id;
    }
  } else if (to.is(Kind::replicate)) {
    switch (from.kind) {
      case Kind::partial:
        return from.reduce == Reduce::logsumexp ? log_sum_exp(v.id, axis) : all_reduce(from.reduce);
      case Kind::shard: {
        const ValueId gathered = emit("all_gather", v.id, {{"axis", axis}, {"parts", parts(m)}});
        auto attrs = cut_attrs(from.dim);
        attrs["size"] = target().type.dims[static_cast<size_t>(from.dim)].size;
        return emit("unstack", gathered, std::move(attrs));
      }
      case Kind::flat: {
        const ValueId gathered = emit("all_gather", v.id, {{"axis", axis}, {"parts", parts(m)}});
        Attrs attrs;
        graph::type_to_attrs(target().type, attrs);
        return emit("unflatten", gathered, std::move(attrs));
      }
      case Kind::replicate:
        return v.id;
    }
  } else if (from.is(Kind::partial) && from.reduce == Reduce::sum) {
    Attrs scatter{{"axis", axis}, {"parts", parts(m)}, {"reduce", std::string("sum")}};
    if (to.is(Kind::shard)) {
      auto attrs = cut_attrs(to.dim);
      attrs["parts"] = parts(m);
      return emit("reduce_scatter", emit("stack", v.id, std::move(attrs)), std::move(scatter));
    }
    if (to.is(Kind::flat)) {
      return emit("reduce_scatter", emit("flatten", v.id, {{"parts", parts(m)}}),
                  std::move(scatter));
    }
  }
  // Everything else goes through the whole.
  MGT_ASSIGN_OR_RETURN(const ValueId whole, step(v, m, Place::replicate()));
  Placed middle{whole, v.logical, v.placement};
  middle.placement[m] = Place::replicate();
  return step(middle, m, to);
}

Result<ValueId> Redistributor::move(const Placed& value, const Placement& to, int64_t stage) {
  if (value.placement == to) return value.id;
  const auto key = std::make_tuple(value.id, to, stage, builder_.phase());
  if (const auto it = cache_.find(key); it != cache_.end()) return it->second;

  Placed at = value;
  const auto apply = [&](size_t m, const Place& place) -> Status {
    if (at.placement[m] == place) return {};
    MGT_ASSIGN_OR_RETURN(at.id, step(at, m, place));
    at.placement[m] = place;
    if (at.id != value.id) set_maps(at.id, at.logical, at.placement);
    return {};
  };
  // A flat cut lies inside every other and leaves first; then the inner cuts of a dimension before
  // the outer ones; arrivals go the other way round.
  const size_t axes = layout_.axes.size();
  for (size_t m = axes; m-- > 0;) {
    if (at.placement[m].is(Kind::flat) && to[m] != at.placement[m])
      MGT_RETURN_IF_ERROR(apply(m, Place::replicate()));
  }
  for (size_t m = axes; m-- > 0;) {
    if (at.placement[m].is(Kind::shard) && to[m] != at.placement[m])
      MGT_RETURN_IF_ERROR(apply(m, Place::replicate()));
  }
  for (size_t m = 0; m < axes; ++m) {
    if (at.placement[m] == to[m] || to[m].is(Kind::flat)) continue;
    if (to[m].is(Kind::shard)) {
      for (size_t inner = m + 1; inner < axes; ++inner) {
        if (at.placement[inner].is(Kind::shard) && at.placement[inner].dim == to[m].dim) {
          const auto& axis = value.logical.dims[static_cast<size_t>(to[m].dim)].axis;
          return Status::error(
              Code::unimplemented,
              text("dimension ", to[m].dim, " of ", graph::to_string(value.logical),
                   " cannot be cut on mesh axis '", name(m), "'"),
              text("it is already cut on '", name(inner), "', which lies inside of '", name(m),
                   "'"),
              text("map '", axis, "' to one of the two axes, or put '", name(inner), "' before '",
                   name(m), "' in the mesh"));
        }
      }
    }
    MGT_RETURN_IF_ERROR(apply(m, to[m]));
  }
  for (size_t m = 0; m < axes; ++m) {
    if (to[m].is(Kind::flat)) MGT_RETURN_IF_ERROR(apply(m, to[m]));
  }
  cache_[key] = at.id;
  return at.id;
}

}  // namespace megatron::passes
