// The text form of a program: prints and parses back to the same program.
//
//   program loss
//     parameter %w : f32[mlp=8, hidden=4] = normal(0, 0.02)
//     input %x : f32[batch=2, hidden=4]
//     %2 = linear(%x, %w) {contract = 1} : f32[batch=2, mlp=8] @ layers.0.mlp block 0
//     output y = %2
//   end
//
// A result that is written into a parameter or state has `into %name`; one that adds to it has `add
// into`. After partitioning, a dimension shows what this rank holds: vocab=6{6+5 of 11} is global
// indices 6 to 10 in six local places.
#pragma once

#include <string>
#include <string_view>

#include "graph/ir.hpp"

namespace megatron::graph {

std::string print(const Program& program);
// Errors give the line of the text.
Result<Program> parse(std::string_view text);

}  // namespace megatron::graph
