// The host's own keys of an experiment's manifest, under Megatron's names.
#pragma once

#include <cstdint>
#include <vector>

#include "config/schema.hpp"

namespace megatron::train {

inline constexpr int64_t kMaxBatch = 100'000'000;  // sequences of an iteration

// [train], [model], [tokenizer], [data], [optimizer], [checkpoint], [device], [[parallel]], [comm];
// without plugins' schemas. A run of several ranks has a communication back end even where the
// manifest names none.
std::vector<config::SectionSchema> experiment_sections(bool several_ranks);

}  // namespace megatron::train
