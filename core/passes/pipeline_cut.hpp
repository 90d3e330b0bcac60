// Cuts a rank's program into pipeline stages: nodes go to the stage of their block, values that
// cross a cut are sent and received. What is tied across stages (a parameter read on two) stays in
// both.
#pragma once

#include <string>
#include <vector>

#include "graph/ir.hpp"

namespace megatron::passes {

struct PipelineCut {
  std::string axis;                  // mesh axis of the stages
  std::vector<int64_t> first_block;  // of each stage, ascending, first 0; nodes before block 0 are
                                     // on stage 0, nodes behind the last block on the last stage
  int64_t stages() const { return static_cast<int64_t>(first_block.size()); }
  int64_t stage_of(const graph::Node& node) const;
};

// Deals `blocks` to `stages` as evenly as possible, the first ones larger.
PipelineCut even_cut(std::string axis, int64_t blocks, int64_t stages);

Result<graph::Program> cut_stage(const graph::Program& program, const PipelineCut& cut,
                                 int64_t stage);

}  // namespace megatron::passes
