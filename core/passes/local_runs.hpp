// Which elements of a logical tensor a rank's local memory holds, as runs of consecutive elements:
// what initialisation, checkpoints and comparisons between layouts copy by.
#pragma once

#include <cstdint>
#include <vector>

#include "passes/layout.hpp"

namespace megatron::passes {

// local[local_begin + i] is logical[logical_begin + i], row-major, for i < length.
struct Run {
  int64_t local_begin;
  int64_t logical_begin;
  int64_t length;
  friend bool operator==(const Run&, const Run&) = default;
};

// The same of a tensor that is cut by maps alone, one a dimension.
std::vector<Run> runs_of(const std::vector<IndexMap>& maps);

// Ascending in local_begin. Local elements that no run covers are padding.
std::vector<Run> local_runs(const Layout& layout, const std::vector<int64_t>& coordinates,
                            const graph::Type& logical, const Placement& placement);

}  // namespace megatron::passes
