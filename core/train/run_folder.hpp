// The folder of a run's files: metrics.jsonl, config.toml, checkpoints/. One process has it at a
// time, and a run that starts anew loses nothing of the old one before it has something to keep.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "megatron/file.hpp"
#include "megatron/status.hpp"

namespace megatron::train {

class RunFolder {
 public:
  using Warn = std::function<void(std::string_view)>;

  enum class Use : uint8_t {
    fresh,      // ALREADY_EXISTS where a run's files are
    resume,     // they are continued
    overwrite,  // they are replaced, see begin()
  };
  // Creates the folder and takes it for this object's life. FAILED_PRECONDITION when another
  // process has it. What an interrupted process left half done is undone or finished first.
  static Result<RunFolder> open(const std::string& folder, Use use, Warn warn);
  // What open() would refuse, without changing anything. Without `use` it is not known yet how the
  // run will be started: what a flag or waiting would solve is told to `warn`.
  static Status check(const std::string& folder, std::optional<Use> use, const Warn& warn);
  // False where --overwrite was interrupted: which checkpoints count is known after open().
  static Result<bool> settled(const std::string& folder);
  RunFolder(RunFolder&& other) noexcept = default;
  RunFolder& operator=(RunFolder&& other) = delete;
  // An old run that is only set aside comes back, unless there is a checkpoint of the new.
  ~RunFolder();

  // The run has all that it needs: an old run is set aside, or, to resume it, cleaned of
  // checkpoints that were never finished.
  Status begin();
  // The run has something to keep: an old run that is set aside is removed. What cannot be removed
  // takes space and harms nothing.
  void keep_new();

  std::string metrics() const { return folder_ + "/metrics.jsonl"; }
  std::string checkpoints() const { return folder_ + "/checkpoints"; }
  std::string config() const { return folder_ + "/config.toml"; }

 private:
  RunFolder(std::string folder, Use use, Warn warn)
      : folder_(std::move(folder)), use_(use), warn_(std::move(warn)) {}
  Status lock();
  Status something_to_resume() const;
  Status not_locked(int error);
  Result<bool> in_use() const;
  Status in_use_error() const;
  std::string lock_path() const { return folder_ + "/.megatron.lock"; }
  Result<bool> used() const;
  Status used_error() const;
  Result<bool> old_counts() const;
  Result<bool> settle();
  Status set_aside();
  Status bring_back();
  Status remove_unfinished() const;
  // The old run's. On the same file system: "checkpoints" may be a link to another one. A folder
  // cannot be moved into them at once, so what is on its way there or back has another name.
  std::string old_checkpoints() const { return checkpoints() + "/.replaced"; }
  std::string moving_checkpoints() const { return checkpoints() + "/.replacing"; }

  std::string folder_;
  Use use_;
  Warn warn_;
  FileDescriptor lock_;
  bool held_ = false;
};

}  // namespace megatron::train
