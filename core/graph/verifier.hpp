// Checks a program: every value defined before its use, types as the op table infers them,
// attributes known, accumulators and losses well-formed, nothing read from a parameter or state
// after something else was written there. Passes run it after each change.
#pragma once

#include "graph/ir.hpp"

namespace megatron::graph {

Status verify(const Program& program);

}  // namespace megatron::graph
