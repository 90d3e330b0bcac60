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
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "megatron/status.hpp"

namespace megatron::checkpoint {

// How far a run has come.
struct Progress {
  int64_t iteration = 0;  // finished
  int64_t consumed_samples = 0;
  bool evaluation_due = false;  // of this iteration; the run was stopped in it
};

struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};
// The logical float32 tensors of a run, in the order of the files.
struct Contents {
  std::vector<TensorShape> parameters;
  std::vector<TensorShape> optimizer_states;
};

// A checkpoint in the making. The ranks of a run write it together: one begins and commits it, and
// between the two every rank writes its parts; the caller sees to it that all have synced before
// the commit.
class CheckpointWriter {
 public:
  // Told what could not be removed: it takes space and harms nothing.
  using Warn = std::function<void(std::string_view)>;

  CheckpointWriter(const std::string& directory, const Progress& progress,
                   const Contents& contents);

  Status begin();
  Status open();
  // Elements of a tensor from the row-major index `first` on.
  Status write(std::string_view name, int64_t first, std::span<const float> elements);
  Status sync();
  // Returns the folder. `keep` > 0: older checkpoints beyond that many are removed afterwards.
  Result<std::string> commit(const std::string& config, int64_t keep, const Warn& warn);
  // Removes what was begun and cannot be committed.
  Status discard() const;

 private:
  Status remove_older(int64_t keep, const Warn& warn) const;

  std::string directory_, folder_, staging_;
  Progress progress_;
  SafetensorsHeader model_, optimizer_;
  std::set<std::string, std::less<>> parameters_;
  std::optional<SafetensorsFile> model_file_, optimizer_file_;
};

// One tensor of a checkpoint, whose shape was found right.
class TensorReader {
 public:
  TensorReader(const SafetensorsReader* file, std::string name)
      : file_(file), name_(std::move(name)) {}
  // Elements from the row-major index `first` on.
  Status read(int64_t first, std::span<float> out) const {
    return file_->read(name_, static_cast<uint64_t>(first) * sizeof(float),
                       std::as_writable_bytes(out));
  }

 private:
  const SafetensorsReader* file_;
  std::string name_;
};

// A complete, verified checkpoint.
class Checkpoint {
 public:
  // Whether the folder holds files of one, sound or not.
  static Result<bool> is_one(const std::string& folder);
  // Checks the manifest and every file's size and checksum. A folder iter_NNNNNNN must hold that
  // iteration.
  static Result<Checkpoint> open(const std::string& folder);
  // The newest sound one below `directory`; each damaged newer one is reported to `warn`. NOT_FOUND
  // when there is none.
  static Result<Checkpoint> open_newest(const std::string& directory,
                                        const std::function<void(std::string_view)>& warn);

  const Progress& progress() const { return progress_; }
  const std::string& folder() const { return folder_; }
  Result<std::string> config() const;
  // The tensor must be f32 and of the run's shape; an error names it and both types.
  Result<TensorReader> parameter(std::string_view name, const std::vector<int64_t>& shape) const;
  Result<TensorReader> optimizer_state(std::string_view name,
                                       const std::vector<int64_t>& shape) const;
  // Whether it holds these tensors and no other: a smaller model would take a part of it. Optimizer
  // states count when they are to be read.
  Status check_fits(const Contents& run, bool with_optimizer) const;

 private:
  std::string folder_;
  Progress progress_;
  SafetensorsReader model_;
  SafetensorsReader optimizer_;
};

}  // namespace megatron::checkpoint
