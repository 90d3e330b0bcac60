// Moves weights and optimizer states between the ranks of a run and checkpoints: each rank writes
// and reads the runs of logical tensors that it holds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "train/engine.hpp"
#include "train/loop.hpp"

namespace megatron::train {

// The whole model's, whatever this rank holds.
checkpoint::Contents checkpoint_contents(const RankPrograms& programs);

class StateTransfer {
 public:
  explicit StateTransfer(Engine& engine, bool leads = true) : engine_(engine), leads_(leads) {}

  // Called by every rank; the leading one begins and commits. Returns the checkpoint's folder below
  // `directory`. What fails on one rank fails on all, and leaves nothing behind.
  Result<std::string> save(const std::string& directory, const LoopState& state,
                           const std::string& config, int64_t keep);
  Status load(const checkpoint::Checkpoint& from, bool with_optimizer);

 private:
  Result<std::string> save(checkpoint::CheckpointWriter& writer, const std::string& config,
                           int64_t keep);
  Status write_parts(checkpoint::CheckpointWriter& writer);
  Status write(checkpoint::CheckpointWriter& writer, const PersistentTensor& tensor);
  Status read(const checkpoint::TensorReader& from, const PersistentTensor& tensor);
  // The status, or that of another rank.
  Status agree(std::string_view step, Status status);

  Engine& engine_;
  bool leads_;
  std::vector<float> local_;
};

}  // namespace megatron::train
