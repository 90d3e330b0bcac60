#include "passes/layout.hpp"

#include <algorithm>

namespace megatron::passes {

using graph::Type;

int64_t Layout::world_size() const {
  int64_t n = 1;
  for (const auto& a : axes) n *= a.size;
  return n;
}

std::vector<int64_t> Layout::coordinates(int64_t rank) const {
  std::vector<int64_t> out(axes.size());
  for (size_t m = axes.size(); m-- > 0;) {
    out[m] = rank % axes[m].size;
    rank /= axes[m].size;
  }
  return out;
}

std::optional<size_t> Layout::axis(std::string_view name) const {
  for (size_t m = 0; m < axes.size(); ++m) {
    if (axes[m].name == name && axes[m].size > 1) return m;
  }
  return std::nullopt;
}

const AxisMapping* Layout::mapping(std::string_view logical, std::string_view mesh) const {
  const auto it = std::find_if(mappings.begin(), mappings.end(), [&](const AxisMapping& a) {
    return a.logical == logical && a.mesh == mesh;
  });
  return it == mappings.end() ? nullptr : &*it;
}

std::vector<size_t> Layout::nesting(std::string_view logical) const {
  std::vector<size_t> order;
  for (const bool secondary : {false, true}) {
    for (size_t m = 0; m < axes.size(); ++m) {
      const AxisMapping* a = mapping(logical, axes[m].name);
      if (axes[m].size > 1 && a != nullptr && a->secondary == secondary) order.push_back(m);
    }
  }
  return order;
}

std::string to_string(const Layout& layout, const Placement& placement) {
  std::string out;
  for (size_t m = 0; m < placement.size(); ++m) {
    const Place& p = placement[m];
    if (p.is(Place::Kind::replicate)) continue;
    if (!out.empty()) out += ' ';
    out += layout.axes[m].name + ":";
    switch (p.kind) {
      case Place::Kind::shard:
        out += text("shard(", p.dim, ")");
        break;
      case Place::Kind::partial:
        out += text("partial(", graph::reduce_name(p.reduce), ")");
        break;
      case Place::Kind::flat:
        out += "flat";
        break;
      case Place::Kind::replicate:
        break;
    }
  }
  return out.empty() ? "replicate" : out;
}

Local localize(const Layout& layout, const std::vector<int64_t>& coordinates, const Type& logical,
               const Placement& placement) {
  Local out{logical, {}};
  for (size_t d = 0; d < logical.rank(); ++d) {
    const std::string& axis = logical.dims[d].axis;
    IndexMap map = IndexMap::identity(logical.dims[d].size);
    if (const auto it = layout.multiples.find(axis); it != layout.multiples.end())
      map = map.padded(it->second);
    for (const size_t m : layout.nesting(axis)) {
      if (!placement[m].is(Place::Kind::shard) || placement[m].dim != static_cast<int>(d)) continue;
      const AxisMapping* mapping = layout.mapping(axis, layout.axes[m].name);
      if (!mapping->instances) map = map.cut(mapping->cut, layout.axes[m].size, coordinates[m]);
    }
    out.type.dims[d].size = map.local_size();
    out.maps.push_back(std::move(map));
  }
  for (size_t m = 0; m < placement.size(); ++m) {
    if (!placement[m].is(Place::Kind::flat)) continue;
    const int64_t chunk =
        IndexMap::part_size(out.type.elements(), Cut::contiguous, layout.axes[m].size);
    out.type.dims = {{chunk, "flat"}};
    out.maps.clear();
  }
  return out;
}

Placement stored_placement(const Layout& layout, const Type& logical) {
  Placement placement(layout.axes.size());
  for (size_t m = 0; m < layout.axes.size(); ++m) {
    if (layout.axes[m].size == 1) continue;
    for (size_t d = 0; d < logical.rank(); ++d) {
      const AxisMapping* mapping = layout.mapping(logical.dims[d].axis, layout.axes[m].name);
      if (mapping == nullptr || mapping->secondary) continue;
      placement[m] = Place::shard(static_cast<int>(d));
      break;
    }
  }
  return placement;
}

namespace {
Placement with_zero(const Layout& layout, const Type& logical, int from_stage) {
  Placement placement = stored_placement(layout, logical);
  const auto m = layout.axis(layout.zero_axis);
  if (m && layout.zero_stage >= from_stage && placement[*m].is(Place::Kind::replicate))
    placement[*m] = Place::flat();
  return placement;
}
}  // namespace

Placement parameter_placement(const Layout& layout, const Type& logical) {
  return with_zero(layout, logical, 3);
}
Placement optimizer_state_placement(const Layout& layout, const Type& logical) {
  return with_zero(layout, logical, 1);
}

namespace {
Status check_dimension(const Layout& layout, const graph::Dim& dim, std::string_view owner) {
  int64_t size = dim.size;
  for (const size_t m : layout.nesting(dim.axis)) {
    const AxisMapping& a = *layout.mapping(dim.axis, layout.axes[m].name);
    if (a.instances || a.padded) continue;
    const int64_t parts = layout.axes[m].size * (a.cut == Cut::balanced ? 2 : 1);
    if (size % parts != 0) {
      return invalid_argument(text("axis '", dim.axis, "' of '", owner, "' has the size ", dim.size,
                                   ", which cannot be cut over ", layout.axes[m].size,
                                   " ranks of '", layout.axes[m].name, "'"),
                              text(size, " is not divisible by ", parts,
                                   size == dim.size ? "" : " (after the outer cuts)",
                                   a.cut == Cut::balanced ? ": every rank holds two chunks" : ""),
                              "change the model's size or the number of ranks");
    }
    size = size / parts * (parts / layout.axes[m].size);
  }
  return {};
}
}  // namespace

Status check_divisible(const Layout& layout, const graph::Program& program) {
  for (const auto& value : program.values) {
    if (value.kind != graph::ValueKind::parameter && value.kind != graph::ValueKind::input)
      continue;
    for (const auto& dim : value.type.dims)
      MGT_RETURN_IF_ERROR(check_dimension(layout, dim, value.name));
  }
  return {};
}

}  // namespace megatron::passes
