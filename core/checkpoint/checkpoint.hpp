// A checkpoint is a folder iter_NNNNNNN of logical tensors, whole whatever the layout that wrote
// them:
//   model.safetensors      weights by the model's parameter names
//   optimizer.safetensors  "<state>.<parameter>"
//   config.toml            the resolved configuration of the run
//   manifest.json          format, iteration, consumed samples, size and XXH3-128 of the other
//                          files and of itself
// It is written beside its final name and renamed when complete; latest_checkpointed_iteration.txt
// comes last. A folder without a sound manifest does not count.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "megatron/status.hpp"

namespace megatron::checkpoint {

struct Progress {
  int64_t iteration = 0;
  int64_t consumed_samples = 0;
};

// What a run saves; `read` gives the float32 elements of a logical tensor, borrowed until the next
// call.
struct Contents {
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  std::vector<Tensor> parameters;
  std::vector<Tensor> optimizer_states;
  std::function<Result<std::span<const float>>(std::string_view name)> read;
  std::string config;
};

// Returns the folder. `keep` > 0: older checkpoints beyond that many are removed afterwards.
Result<std::string> save(const std::string& directory, const Progress& progress,
                         const Contents& contents, int64_t keep);

// A complete, verified checkpoint.
class Checkpoint {
 public:
  // Checks the manifest and every file's size and checksum.
  static Result<Checkpoint> open(const std::string& folder);
  // The newest sound one below `directory`; each damaged newer one is reported to `warn`. NOT_FOUND
  // when there is none.
  static Result<Checkpoint> open_newest(const std::string& directory,
                                        const std::function<void(std::string_view)>& warn);

  const Progress& progress() const { return progress_; }
  const std::string& folder() const { return folder_; }
  Result<std::string> config() const;
  // Shapes must agree with the run's; an error names the tensor and both shapes.
  Status read_parameter(std::string_view name, const std::vector<int64_t>& shape,
                        std::vector<float>& out) const;
  Status read_optimizer_state(std::string_view name, const std::vector<int64_t>& shape,
                              std::vector<float>& out) const;
  // Parameters that the checkpoint holds.
  std::vector<std::string> parameter_names() const;

 private:
  std::string folder_;
  Progress progress_;
  SafetensorsReader model_;
  SafetensorsReader optimizer_;
};

}  // namespace megatron::checkpoint
