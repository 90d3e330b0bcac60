// What a run starts from: the newest checkpoint of its folder (--resume), the weights of another
// one (checkpoint.load), or initial weights.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.hpp"
#include "train/experiment.hpp"

namespace megatron::train {

struct RunStart {
  std::optional<checkpoint::Checkpoint> from;  // none: initial weights
  bool resumes = false;                        // with optimizer states, from its progress

  // Nothing is left to do.
  bool finished(int64_t train_iters) const;
};

// `checkpoints`: those of the run's folder. Each damaged one that is passed over is told to `warn`.
Result<RunStart> open_start(const Experiment& experiment, const std::string& checkpoints,
                            bool resume, const std::function<void(std::string_view)>& warn);

// The settings that a resumed run trains with and that differ from its checkpoint's, in one
// message; "" = none.
Result<std::string> describe_changes(const RunStart& start, const Experiment& experiment);

}  // namespace megatron::train
