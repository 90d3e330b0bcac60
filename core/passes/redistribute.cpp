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

// Another dimension of the same value, on the same mesh axis: parts change hands, nothing is
// gathered.
ValueId Redistributor::exchange(const Placed& v, size_t m, int to) {
  const int from = v.placement[m].dim;
  Placement after = v.placement;
  after[m] = Place::shard(to);
  const auto target = localize(layout_, coordinates_, v.logical, after);
  const ValueId stacked = emit("stack", v.id,
                               {{"dim", int64_t{to}},
                                {"cut", static_cast<int64_t>(cut(m, v.logical, to))},
                                {"parts", parts(m)}});
  const ValueId exchanged = emit("all_to_all", stacked, {{"axis", std::string(name(m))}});
  return emit("unstack", exchanged,
              {{"dim", int64_t{from}},
               {"cut", static_cast<int64_t>(cut(m, v.logical, from))},
               {"size", target.type.dims[static_cast<size_t>(from)].size}});
}

namespace {
// Whether no axis that lies inside of m in the dimension's nesting is cut.
bool innermost(const Layout& layout, const Type& logical, const Placement& placement, size_t m,
               int dim) {
  const auto order = layout.nesting(logical.dims[static_cast<size_t>(dim)].axis);
  const auto here = std::find(order.begin(), order.end(), m);
  return here != order.end() && std::all_of(here + 1, order.end(), [&](size_t inner) {
           return placement[inner] != Place::shard(dim);
         });
}
}  // namespace

Result<ValueId> Redistributor::move(const Placed& value, const Placement& to, int64_t stage) {
  if (value.placement == to) return value.id;
  const auto key = std::make_tuple(value.id, to, stage, builder_.phase());
  if (const auto it = cache_.find(key); it != cache_.end()) return it->second;

  Placed at = value;
  const auto made = [&](size_t m, const Place& place, ValueId id) {
    at.id = id;
    at.placement[m] = place;
    if (at.id != value.id) set_maps(at.id, at.logical, at.placement);
  };
  const auto apply = [&](size_t m, const Place& place) -> Status {
    if (at.placement[m] == place) return {};
    MGT_ASSIGN_OR_RETURN(const ValueId id, step(at, m, place));
    made(m, place, id);
    return {};
  };
  const size_t axes = layout_.axes.size();
  const auto order_of = [&](size_t d) { return layout_.nesting(at.logical.dims[d].axis); };

  const auto recut = [&](size_t m) {  // other parts of the dimensions
    return at.placement[m] != to[m] && (at.placement[m].is(Kind::shard) || to[m].is(Kind::shard));
  };
  bool any_recut = false;
  for (size_t m = 0; m < axes; ++m) any_recut = any_recut || recut(m);
  // A flat cut is one of what the others leave: where they change, it leaves first and comes back.
  for (size_t m = 0; m < axes; ++m) {
    if (at.placement[m].is(Kind::flat) && (any_recut || to[m] != at.placement[m]))
      MGT_RETURN_IF_ERROR(apply(m, Place::replicate()));
  }
  for (size_t m = 0; m < axes; ++m) {
    const bool swaps =
        at.placement[m].is(Kind::shard) && to[m].is(Kind::shard) && at.placement[m] != to[m];
    if (swaps && innermost(layout_, at.logical, at.placement, m, at.placement[m].dim) &&
        innermost(layout_, at.logical, at.placement, m, to[m].dim)) {
      made(m, to[m], exchange(at, m, to[m].dim));
    }
  }
  // Of each dimension's cuts, those inside the outermost one that changes leave, innermost first;
  // then cuts arrive, outermost first.
  for (size_t d = 0; d < at.logical.rank(); ++d) {
    const auto order = order_of(d);
    const Place here = Place::shard(static_cast<int>(d));
    const auto changes = [&](size_t m) { return (at.placement[m] == here) != (to[m] == here); };
    const auto outermost = std::find_if(order.begin(), order.end(), changes);
    for (auto it = order.end(); it != outermost;) {
      if (at.placement[*--it] == here) MGT_RETURN_IF_ERROR(apply(*it, Place::replicate()));
    }
  }
  for (size_t d = 0; d < at.logical.rank(); ++d) {
    for (const size_t m : order_of(d)) {
      if (to[m] == Place::shard(static_cast<int>(d))) MGT_RETURN_IF_ERROR(apply(m, to[m]));
    }
  }
  for (const bool flat : {false, true}) {
    for (size_t m = 0; m < axes; ++m) {
      if (to[m].is(Kind::flat) == flat) MGT_RETURN_IF_ERROR(apply(m, to[m]));
    }
  }
  cache_[key] = at.id;
  return at.id;
}

}  // namespace megatron::passes
