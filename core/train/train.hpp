// `megatron-host run`: from an experiment to a trained model.
#pragma once

#include <string>

#include "train/cluster.hpp"
#include "train/experiment.hpp"
#include "train/loop.hpp"
#include "train/run_folder.hpp"

namespace megatron::train {

struct RunOptions {
  bool resume = false;     // continue from the newest checkpoint of output_dir
  bool overwrite = false;  // start anew in an output_dir that holds a run
  const std::atomic<bool>* stop = nullptr;

  RunFolder::Use use() const {
    return resume      ? RunFolder::Use::resume
           : overwrite ? RunFolder::Use::overwrite
                       : RunFolder::Use::fresh;
  }
};

// Folder of the run's files: config.toml, metrics.jsonl, checkpoints/.
std::string output_dir(const Experiment& experiment, const std::string& manifest_path);

// One rank's part of a run. `cluster` is null in a run of one.
Result<LoopResult> run_experiment(Experiment& experiment, PoolServices& services,
                                  const passes::Layout& layout, Cluster* cluster,
                                  const std::string& directory, const RunOptions& options);

}  // namespace megatron::train
