// Moves weights and optimizer states between an engine and checkpoints, one logical tensor at a
// time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "train/engine.hpp"
#include "train/loop.hpp"

namespace megatron::train {

class StateTransfer {
 public:
  explicit StateTransfer(Engine& engine) : engine_(engine) {}

  // Returns the checkpoint's folder below `directory`.
  Result<std::string> save(const std::string& directory, const LoopState& state,
                           const std::string& config, int64_t keep);
  Status load(const checkpoint::Checkpoint& from, bool with_optimizer);

 private:
  const PersistentTensor& find(std::string_view name) const;
  Result<std::span<const float>> read(std::string_view name);
  Status write(const PersistentTensor& tensor);

  Engine& engine_;
  std::vector<float> local_;
  std::vector<float> logical_;
};

}  // namespace megatron::train
