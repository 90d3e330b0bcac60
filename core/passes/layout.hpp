// The layout of a run: a mesh of named axes, which logical axis lies on which mesh axis, and the
// strategies that labels alone cannot say. Parallel plugins write it, the partitioner reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "graph/op.hpp"
#include "megatron/index_map.hpp"

namespace megatron::passes {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

struct AxisMapping {
  std::string logical;
  std::string mesh;
  Cut cut = Cut::contiguous;
  // Applies only where no primary mapping of an op claims the mesh axis (sequence parallelism).
  bool secondary = false;
  // Every rank runs the program at its full size on samples of its own (data parallelism): the
  // dimension is apart on each rank but not cut.
  bool instances = false;
  // A size that does not divide is padded in memory.
  bool padded = false;
};

// How blocks of layers are dealt to the ranks of the pipeline axis.
struct PipelineSplit {
  std::string schedule = "1f1b";
  int64_t virtual_stages = 1;  // chunks a rank
  int64_t first_layers = 0;    // 0 = dealt evenly
  int64_t last_layers = 0;
  bool embedding_counts = false;
  bool loss_counts = false;
  std::string layout{};  // "Ett|ttL"; "" = none
};

struct Layout {
  std::vector<MeshAxis> axes;  // outermost first
  std::vector<AxisMapping> mappings;
  std::map<std::string, int64_t, std::less<>> multiples;  // physical padding: "vocab" -> 128
  // ZeRO: stage 1 cuts optimizer states over `zero_axis`, 2 gradients too, 3 weights too.
  std::string zero_axis;
  int zero_stage = 0;
  std::string ring_axis;        // attention passes key/value blocks around this axis
  std::string all_to_all_axis;  // attention exchanges heads for sequence over this axis
  std::string pipeline_axis;    // blocks are dealt to its ranks
  PipelineSplit pipeline;

  int64_t world_size() const;
  // Position on each axis; the last axis varies fastest.
  std::vector<int64_t> coordinates(int64_t rank) const;
  // Index in `axes`, or nothing when the layout has no such axis or it has size 1.
  std::optional<size_t> axis(std::string_view name) const;
  const AxisMapping* mapping(std::string_view logical, std::string_view mesh) const;
  // Mesh axes (of size > 1) that a logical axis may lie on, in the order in which it is cut: those
  // of primary mappings come first.
  std::vector<size_t> nesting(std::string_view logical) const;
};

// Where a value lies on one mesh axis.
struct Place {
  enum class Kind : uint8_t {
    replicate,  // every rank holds the whole
    shard,      // dimension `dim` is cut
    partial,    // the whole is the reduction over ranks
    flat,       // the elements in row-major order are cut into equal runs (ZeRO)
  };
  Kind kind = Kind::replicate;
  int dim = -1;
  graph::Reduce reduce = graph::Reduce::sum;

  static Place replicate() { return {}; }
  static Place shard(int dim) { return {Kind::shard, dim, graph::Reduce::sum}; }
  static Place partial(graph::Reduce reduce = graph::Reduce::sum) {
    return {Kind::partial, -1, reduce};
  }
  static Place flat() { return {Kind::flat, -1, graph::Reduce::sum}; }
  bool is(Kind k) const { return kind == k; }
  friend auto operator<=>(const Place&, const Place&) = default;
};
using Placement = std::vector<Place>;  // one a mesh axis

std::string to_string(const Layout& layout, const Placement& placement);

// What the rank at `coordinates` holds of a logical tensor: local type and one index map a
// dimension. A flat placement leaves one dimension "flat" and no map.
struct Local {
  graph::Type type;
  std::vector<IndexMap> maps;
};
Local localize(const Layout& layout, const std::vector<int64_t>& coordinates,
               const graph::Type& logical, const Placement& placement);

// How a tensor that lives across programs (a weight) or is fed (an input) lies by the layout's
// mappings.
Placement stored_placement(const Layout& layout, const graph::Type& logical);
Placement parameter_placement(const Layout& layout, const graph::Type& logical);
Placement optimizer_state_placement(const Layout& layout, const graph::Type& logical);

// Sizes of the program's weights and inputs that the layout cannot cut: one error naming the axis
// and the two numbers.
Status check_divisible(const Layout& layout, const graph::Program& program);

}  // namespace megatron::passes
