// Moving a value from one placement to another: which nodes it takes.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "graph/builder.hpp"
#include "passes/layout.hpp"

namespace megatron::passes {

// A value of the local program with its logical type and where it lies.
struct Placed {
  graph::ValueId id = graph::kNone;
  graph::Type logical;
  Placement placement;
};

class Redistributor {
 public:
  Redistributor(const Layout& layout, std::vector<int64_t> coordinates,
                graph::ProgramBuilder& builder)
      : layout_(layout), coordinates_(std::move(coordinates)), builder_(builder) {}

  // The value in placement `to`, made by nodes appended at the builder's place; the same request at
  // the same stage of the program is answered with the same value.
  Result<graph::ValueId> move(const Placed& value, const Placement& to, int64_t stage);

  // Sets type-checked index maps on a value that was just made.
  void set_maps(graph::ValueId id, const graph::Type& logical, const Placement& placement);

 private:
  Result<graph::ValueId> step(const Placed& value, size_t axis, const Place& to);
  graph::ValueId exchange(const Placed& value, size_t axis, int to_dim);
  graph::ValueId log_sum_exp(graph::ValueId x, const std::string& axis);
  graph::ValueId emit(std::string_view op, graph::ValueId input, graph::Attrs attrs);
  std::string_view name(size_t axis) const { return layout_.axes[axis].name; }
  int64_t parts(size_t axis) const { return layout_.axes[axis].size; }
  Cut cut(size_t axis, const graph::Type& logical, int dim) const;

  const Layout& layout_;
  std::vector<int64_t> coordinates_;
  graph::ProgramBuilder& builder_;
  std::map<std::tuple<graph::ValueId, Placement, int64_t, graph::Phase>, graph::ValueId> cache_;
};

}  // namespace megatron::passes
