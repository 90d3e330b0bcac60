// Splits the program of a pipeline stage into its actions: forward, backward, and (for schedules
// that fill bubbles with them) weight gradients. Values that one action makes and another reads,
// and values that are sent, become states named "saved.<value>": they live in memory that each
// micro-batch in flight has a set of.
#pragma once

#include <string_view>

#include "graph/ir.hpp"

namespace megatron::passes {

inline constexpr std::string_view kSavedPrefix = "saved.";

struct ActionPrograms {
  graph::Program forward;
  graph::Program backward;
  graph::Program weight;  // without nodes unless asked for
};

// separate_weights: backward computes what the stage before it waits for, weight all the rest.
Result<ActionPrograms> split_actions(const graph::Program& stage, bool separate_weights);

}  // namespace megatron::passes
