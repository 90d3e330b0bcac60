// The host's own keys of an experiment's manifest, under Megatron's names.
#pragma once

#include <vector>

#include "config/schema.hpp"

namespace megatron::train {

// [train], [model], [tokenizer], [data], [optimizer], [checkpoint], [device]; without plugins'
// schemas.
std::vector<config::SectionSchema> experiment_sections();

}  // namespace megatron::train
