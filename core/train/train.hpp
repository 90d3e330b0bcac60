// `megatron-host run`: from an experiment to a trained model.
#pragma once

#include <string>

#include "train/experiment.hpp"
#include "train/loop.hpp"

namespace megatron::train {

struct RunOptions {
  bool resume = false;     // continue from the newest checkpoint of output_dir
  bool overwrite = false;  // start anew in an output_dir that holds a run
  const std::atomic<bool>* stop = nullptr;
};

// Folder of the run's files: config.toml, metrics.jsonl, checkpoints/.
std::string output_dir(const Experiment& experiment, const std::string& manifest_path);

Result<LoopResult> run_experiment(Experiment& experiment, PoolServices& services,
                                  const std::string& directory, const RunOptions& options);

}  // namespace megatron::train
