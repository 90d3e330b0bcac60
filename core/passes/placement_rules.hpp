// How one op lies: what the layout's mappings, the op's labels and its linearity ask of its
// operands and give its results. Where operands disagree with what they have, the partitioner moves
// them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/ir.hpp"
#include "graph/labels.hpp"
#include "passes/layout.hpp"
#include "passes/redistribute.hpp"

namespace megatron::passes {

struct OpPlacement {
  std::vector<Placement> inputs;
  std::vector<Placement> outputs;
  std::optional<size_t> ring;  // the mesh axis that attention goes around
};

class PlacementRules {
 public:
  // Both outlive this.
  PlacementRules(const graph::Program& logical, const Layout& layout)
      : in_(logical), layout_(layout) {}

  // `placed`: of each logical value made so far. An op with at least one tensor operand.
  OpPlacement place(const graph::Node& node, std::span<const Placed> placed) const;

 private:
  // On one mesh axis.
  struct Decision {
    std::vector<Place> inputs;
    std::vector<Place> outputs;
  };
  Decision decide(const graph::Node& node, const graph::Labels& labels,
                  std::span<const Placed> placed, size_t m) const;
  Decision around_ring(const graph::Node& node) const;
  std::vector<size_t> tensor_operands(const graph::Node& node, size_t count) const;
  Place resolved(const Placed& value, size_t m) const;
  bool decide_flat(const graph::Node& node, const std::vector<size_t>& tensors, Decision& d) const;
  std::optional<int> made_dimension(const graph::Node& node, const graph::Labels& labels,
                                    size_t m) const;
  std::optional<graph::Label> choose_label(const graph::Node& node, const graph::Labels& labels,
                                           const std::vector<size_t>& tensors, const Decision& d,
                                           size_t m) const;
  const AxisMapping* mapping_of(const std::string& axis, size_t m) const;

  const graph::Program& in_;
  const Layout& layout_;
};

}  // namespace megatron::passes
