// One table of collectives for every plugin: kind x type x size x in place or not x memory.
#pragma once

#include "unit/comm/world.hpp"

namespace megatron::test {

struct CaseLimits {
  bool allocated = true;  // memory of the plugin, too
  bool large = true;      // sizes of several rounds
};

// Runs all cases on this rank over the group; GoogleTest expectations inside.
void run_collective_cases(Rank& rank, const GroupHandle& group, CaseLimits limits);

// Sums of values that are not exact, in ordered mode: the bits of the balanced tree.
void run_ordered_cases(Rank& rank, const GroupHandle& group);

}  // namespace megatron::test
