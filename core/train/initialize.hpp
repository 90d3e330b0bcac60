// Initial weights: element e of a parameter depends on the seed, the parameter's name and e alone,
// so that every layout starts from the same weights.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/ir.hpp"
#include "passes/local_runs.hpp"

namespace megatron::train {

// Fills `out` (local, float32) by `init`; padding becomes zero.
void initialize(const graph::Initializer& init, uint64_t seed, std::string_view name,
                std::span<const passes::Run> runs, std::span<float> out);

}  // namespace megatron::train
