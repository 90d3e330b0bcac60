// The host's own keys of an experiment's manifest, under Megatron's names.
#pragma once

#include <vector>

#include "config/schema.hpp"

namespace megatron::train {

// [train], [model], [tokenizer], [data], [optimizer], [checkpoint], [device], [[parallel]], [comm];
// without plugins' schemas. A run of several ranks has a communication back end even where the
// manifest names none.
std::vector<config::SectionSchema> experiment_sections(bool several_ranks);

}  // namespace megatron::train
