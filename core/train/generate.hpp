// `megatron-host generate`: text from a checkpoint.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.hpp"
#include "train/experiment.hpp"
#include "train/sampling.hpp"

namespace megatron::train {

struct GenerateOptions {
  std::string prompt;
  int64_t tokens = 128;  // to generate; ends earlier at the tokenizer's end-of-document id
  SamplingOptions sampling;
};

// Calls `emit` with the bytes of each token as it is chosen. The model sees at most its seq_length
// last tokens.
Status generate(Experiment& experiment, PoolServices& services,
                const checkpoint::Checkpoint& checkpoint, const GenerateOptions& options,
                const std::function<void(std::string_view)>& emit);

// A checkpoint folder itself, the newest sound one in a folder of them, or of a run's output
// folder.
Result<checkpoint::Checkpoint> open_checkpoint(const std::string& path,
                                               const std::function<void(std::string_view)>& warn);

}  // namespace megatron::train
