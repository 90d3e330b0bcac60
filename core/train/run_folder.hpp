// The folder of a run's files: metrics.jsonl, config.toml, checkpoints/. One process has it at a
// time, and a run that starts anew loses nothing of the old one before it has something to keep.
#pragma once

#include <functional>
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
  RunFolder(RunFolder&& other) noexcept = default;
  RunFolder& operator=(RunFolder&& other) = delete;
  // An old run that is only set aside comes back.
  ~RunFolder();

  // The run has all that it needs: an old run is set aside, or, to resume it, cleaned of
  // checkpoints that were never finished.
  Status begin();
  // The run has something to keep: an old run that is set aside is removed.
  Status keep_new();

  std::string metrics() const { return folder_ + "/metrics.jsonl"; }
  std::string checkpoints() const { return folder_ + "/checkpoints"; }
  std::string config() const { return folder_ + "/config.toml"; }

 private:
  RunFolder(std::string folder, Use use, Warn warn)
      : folder_(std::move(folder)), use_(use), warn_(std::move(warn)) {}
  Status lock();
  Status not_locked(int error);
  std::string lock_path() const { return folder_ + "/.lock"; }
  Result<bool> used() const;
  Status set_aside();
  Status bring_back();
  Status remove_unfinished() const;
  // On the same file system: "checkpoints" may be a link to another one.
  std::string old_checkpoints() const { return checkpoints() + "/replaced"; }

  std::string folder_;
  Use use_;
  Warn warn_;
  FileDescriptor lock_;
  bool locked_ = false;
  bool aside_ = false;
};

}  // namespace megatron::train
