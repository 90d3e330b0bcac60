// Where each value of a program lives: offsets into one scratch region, planned ahead from
// lifetimes. Parameters, states and what is written into them have homes of their own and take no
// part.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir.hpp"

namespace megatron::runtime {

// Enough for any vector load; large blocks start on pages of their own anyway.
inline constexpr int64_t kAlignment = 64;

struct MemoryPlan {
  std::vector<int64_t> offsets;            // of each value; -1 = not in the scratch region
  std::vector<int64_t> workspace_offsets;  // of each node; -1 = needs none
  int64_t scratch_bytes = 0;               // of the region
  int64_t live_peak_bytes = 0;             // the most that is alive at one node: the lower bound
};

// `workspace_bytes` holds one entry a node. Element-wise results take over the memory of an operand
// that is read for the last time.
MemoryPlan plan_memory(const graph::Program& program, std::span<const int64_t> workspace_bytes);

}  // namespace megatron::runtime
