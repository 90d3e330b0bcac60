#include "passes/local_runs.hpp"

#include <algorithm>

namespace megatron::passes {
namespace {

// Appends the runs of dimensions d… at the given row-major offsets; `split` is the last dimension
// that is not held whole.
void collect(const std::vector<IndexMap>& maps, size_t d, size_t split, int64_t local,
             int64_t logical, std::vector<Run>& runs) {
  if (maps.empty()) return runs.push_back({local, logical, 1});
  int64_t local_stride = 1;
  int64_t logical_stride = 1;
  for (size_t i = d + 1; i < maps.size(); ++i) {
    local_stride *= maps[i].local_size();
    logical_stride *= maps[i].global_size();
  }
  for (const auto& piece : maps[d].pieces()) {
    const int64_t local_at = local + piece.local_begin * local_stride;
    const int64_t logical_at = logical + piece.global_begin * logical_stride;
    if (d >= split) {
      runs.push_back({local_at, logical_at, piece.size * logical_stride});
      continue;
    }
    for (int64_t i = 0; i < piece.size; ++i) {
      collect(maps, d + 1, split, local_at + i * local_stride, logical_at + i * logical_stride,
              runs);
    }
  }
}

// What lies in local elements [begin, end), counted from begin.
std::vector<Run> clip(const std::vector<Run>& runs, int64_t begin, int64_t end) {
  std::vector<Run> out;
  for (const Run& r : runs) {
    const int64_t first = std::max(begin, r.local_begin);
    const int64_t last = std::min(end, r.local_begin + r.length);
    if (first < last)
      out.push_back({first - begin, r.logical_begin + (first - r.local_begin), last - first});
  }
  return out;
}

}  // namespace

std::vector<Run> runs_of(const std::vector<IndexMap>& maps) {
  size_t split = 0;
  for (size_t d = 0; d < maps.size(); ++d) {
    if (!maps[d].is_identity()) split = d;
  }
  std::vector<Run> runs;
  collect(maps, 0, split, 0, 0, runs);
  return runs;
}

std::vector<Run> local_runs(const Layout& layout, const std::vector<int64_t>& coordinates,
                            const graph::Type& logical, const Placement& placement) {
  Placement without_flat = placement;
  for (auto& p : without_flat) {
    if (p.is(Place::Kind::flat)) p = Place::replicate();
  }
  const Local local = localize(layout, coordinates, logical, without_flat);
  std::vector<Run> runs = runs_of(local.maps);
  int64_t elements = local.type.elements();
  for (size_t m = 0; m < placement.size(); ++m) {
    if (!placement[m].is(Place::Kind::flat)) continue;
    const int64_t chunk = IndexMap::part_size(elements, Cut::contiguous, layout.axes[m].size);
    runs = clip(runs, coordinates[m] * chunk, (coordinates[m] + 1) * chunk);
    elements = chunk;
  }
  return runs;
}

}  // namespace megatron::passes
