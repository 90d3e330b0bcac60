// Cuts a rank's program into pipeline stages: nodes go to the stage of their block, values that
// cross a cut are sent and received. What is tied across stages (a parameter read on two) stays in
// both.
#pragma once

#include <string>
#include <vector>

#include "graph/ir.hpp"
#include "passes/layout.hpp"

namespace megatron::passes {

// Virtual stage v runs on rank v % ranks; with one chunk a rank, virtual stages are the ranks.
struct PipelineCut {
  std::string axis;                  // mesh axis of the stages
  int64_t ranks = 1;                 // of that axis
  std::vector<int64_t> first_block;  // of each virtual stage, ascending, first 0; nodes before
                                     // block 0 are on stage 0
  int64_t blocks = 0;                // nodes behind the last block count as block `blocks`
  int64_t stages() const { return static_cast<int64_t>(first_block.size()); }
  int64_t stage_of(const graph::Node& node) const;
};

// Repeated layers of a program.
int64_t block_count(const graph::Program& program);

// Deals `blocks` to the virtual stages as the layout asks; evenly, the first ones larger, where it
// does not. Errors name the two numbers that do not fit.
Result<PipelineCut> make_cut(const Layout& layout, int64_t blocks);

Result<graph::Program> cut_stage(const graph::Program& program, const PipelineCut& cut,
                                 int64_t stage);

}  // namespace megatron::passes
