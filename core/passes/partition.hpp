// The partitioner: from a logical program and a layout to the program of one rank. Placements
// propagate over the ops' labels; where an operand does not lie as its op needs it, a collective or
// a local cut is inserted (Xu et al. 2021, arXiv:2105.04663, is the closest relative).
//
// Rules, for each op and each mesh axis:
//   - a label on which operands are cut becomes the op's label: operands that have it are cut
//     along it, the others are whole; results that have it are cut, those that lack it partial;
//   - when two labels claim the axis, a primary mapping wins over a secondary one, then the first
//     operand's;
//   - a partial operand passes only through an op that is linear in it; else it is reduced, to a
//     shard when one of its dimensions is mapped to the axis (sequence parallelism, ZeRO), to the
//     whole otherwise;
//   - inputs are fed in any placement at no cost.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/ir.hpp"
#include "passes/layout.hpp"

namespace megatron::passes {

struct PartitionRequest {
  const Layout* layout = nullptr;
  std::vector<int64_t> coordinates;  // of the rank
  // Placements of states that an earlier program wrote (gradients). Others lie as the layout stores
  // them.
  std::map<std::string, Placement, std::less<>> states;
  // Outputs and loss terms are reduced to the whole; otherwise partial sums stay for the host to
  // add up.
  bool whole_outputs = false;
};

struct Partitioned {
  graph::Program program;
  // Of each parameter, state, output ("output.<name>") and loss sum/count ("loss.<name>.sum").
  std::map<std::string, Placement, std::less<>> placements;
};

Result<Partitioned> partition(const graph::Program& logical, const PartitionRequest& request);

}  // namespace megatron::passes
