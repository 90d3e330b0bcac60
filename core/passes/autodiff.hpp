// Reverse-mode differentiation of a program's loss terms (Griewank and Walther 2008).
#pragma once

#include <string>
#include <string_view>

#include "graph/ir.hpp"

namespace megatron::passes {

// Scalars that the differentiated program reads.
inline constexpr std::string_view kAccumulateScalar =
    "accumulate";  // 0 in a step's first micro-batch
inline constexpr std::string_view kGradSeedPrefix = "grad_seed.";  // + the loss term's name
// The state that holds the gradient of a parameter's use: "grad.<parameter>", with "@<use>" behind
// it when the parameter is read in several places. One accumulator a use keeps the sum's order the
// same wherever the uses end up; the update adds them in the order of use.
inline constexpr std::string_view kGradientPrefix = "grad.";

// Appends the backward nodes. Values that no trainable parameter needs get no gradient; a parameter
// that no loss depends on is an error that names it.
Result<graph::Program> differentiate(graph::Program program);

}  // namespace megatron::passes
