// Cases of the partitioner and of the pipeline cut: a layout as lines of text.
//
//   axis tensor 2                     a mesh axis, in order
//   map seq context [balanced] [secondary] [instances]
//   multiple vocab 16                 physical padding
//   zero data 3      ring context     pipeline pipeline
//   state grad.w data:partial         placement that an earlier program gave a state
//   differentiate                     the program is the forward one
//   whole_outputs
//   rank 1                            whose program is printed
//   stages 0 1    stage 1             pipeline cut: first block of each stage, and which one
#pragma once

#include <string>

#include "graph/ir.hpp"
#include "passes/layout.hpp"
#include "unit/graph/case_file.hpp"

namespace megatron::test {

// The rank's program, and where its parameters, states, outputs and losses lie.
Result<std::string> partition_case(const graph::Program& program, const Case& c);
Result<std::string> pipeline_case(const graph::Program& program, const Case& c);

}  // namespace megatron::test
