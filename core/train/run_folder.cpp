#include "train/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/file.hpp"

namespace megatron::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoint = "iter_";
constexpr std::string_view kUnfinished = ".incomplete";
constexpr std::string_view kFiles[] = {"metrics.jsonl", "config.toml"};
constexpr std::string_view kAside = ".replaced";

Result<bool> exists(const std::string& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error) return errno_status("inspect", path, error.value());
  return found;
}

Status move(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? errno_status("move", from, error.value()) : Status();
}

Status move_if_there(const std::string& from, const std::string& to) {
  MGT_ASSIGN_OR_RETURN(const bool found, exists(from));
  return found ? move(from, to) : Status();
}

Status move_all(const std::string& from, const std::string& to,
                const std::vector<std::string>& names) {
  for (const auto& name : names)
    MGT_RETURN_IF_ERROR(move(text(from, "/", name), text(to, "/", name)));
  return {};
}

Status remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? errno_status("remove", path, error.value()) : Status();
}

// Names in a folder that are a run's: checkpoints, whole or not, and the file that tells the last.
Result<std::vector<std::string>> checkpoint_files(const std::string& folder) {
  std::vector<std::string> names;
  MGT_ASSIGN_OR_RETURN(const bool found, exists(folder));
  if (!found) return names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kCheckpoint) || name.starts_with("latest_")) names.push_back(name);
  }
  if (error) return errno_status("read", folder, error.value());
  return names;
}

// Whether files and folders can be made in a folder that exists; 0 or the system's number. Leaves
// no trace: the file never gets a name, and the folder that is tried where the file system knows no
// such files is removed.
int try_to_write_in(const std::string& folder) {
  const FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file.get() >= 0) return 0;
  if (errno != EOPNOTSUPP && errno != EISDIR) return errno;
  std::string trial = folder + "/.trial_XXXXXX";
  if (::mkdtemp(trial.data()) == nullptr) return errno;
  return ::rmdir(trial.c_str()) == 0 ? 0 : errno;
}

// A folder, or the nearest above it that exists, is one that can be written into.
Status can_create(const std::string& folder) {
  fs::path nearest = absolute_path(folder);
  for (; nearest.has_relative_path(); nearest = nearest.parent_path()) {
    MGT_ASSIGN_OR_RETURN(const bool found, exists(nearest.string()));
    if (found) break;
  }
  const int error = try_to_write_in(nearest.string());
  if (error == 0) return {};
  return errno_status(nearest == absolute_path(folder) ? "write into" : "create", folder, error);
}

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return text("process ", ::getpid(), " on host ", host.data());
}

}  // namespace

Result<RunFolder> RunFolder::open(const std::string& folder, Use use, Warn warn) {
  RunFolder out(folder, use, std::move(warn));
  MGT_RETURN_IF_ERROR(out.something_to_resume());
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return errno_status("create", folder, error.value());
  MGT_RETURN_IF_ERROR(out.lock());
  MGT_ASSIGN_OR_RETURN(const bool back, out.settle());  // what a process that was killed has left
  if (back)
    out.warn_(text("'", folder, "' holds the run again that an interrupted --overwrite set aside"));
  MGT_ASSIGN_OR_RETURN(const bool used, out.used());
  if (used && use == Use::fresh) return out.used_error();
  return out;
}

Status RunFolder::check(const std::string& folder, std::optional<Use> use, const Warn& warn) {
  const RunFolder there(folder, use.value_or(Use::fresh), warn);
  MGT_RETURN_IF_ERROR(there.something_to_resume());
  MGT_RETURN_IF_ERROR(can_create(folder));
  const auto refuse = [&](Status status) -> Status {
    if (use) return status;
    warn(status.message());
    return {};
  };
  MGT_ASSIGN_OR_RETURN(const bool in_use, there.in_use());
  if (in_use) return refuse(there.in_use_error());
  MGT_ASSIGN_OR_RETURN(const bool used, there.used());
  return used && there.use_ == Use::fresh ? refuse(there.used_error()) : Status();
}

Result<bool> RunFolder::settled(const std::string& folder) {
  const RunFolder there(folder, Use::resume, nullptr);
  MGT_ASSIGN_OR_RETURN(const bool aside, exists(there.old_checkpoints()));
  MGT_ASSIGN_OR_RETURN(const bool moving, exists(there.moving_checkpoints()));
  return !aside && !moving;
}

Status RunFolder::something_to_resume() const {
  if (use_ != Use::resume) return {};
  MGT_ASSIGN_OR_RETURN(const bool found, exists(folder_));
  if (found) return {};
  return Status::error(Code::not_found, text("there is no run to resume in '", folder_, "'"),
                       "the folder does not exist",
                       "correct train.output_dir, or start without --resume");
}

Status RunFolder::lock() {
  const std::string path = lock_path();
  struct stat held {};
  struct stat named {};
  do {  // until the locked file is the one that has the name: the last holder removes it
    lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (lock_.get() < 0) return errno_status("open", path, errno);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return not_locked(errno);
    if (::fstat(lock_.get(), &held) != 0) return errno_status("inspect", path, errno);
  } while (::stat(path.c_str(), &named) != 0 || named.st_ino != held.st_ino);
  held_ = true;
  const std::string who = this_process();
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
    return errno_status("write", path, errno);
  return {};
}

Status RunFolder::not_locked(int error) {
  const std::string path = lock_path();
  if (error == EWOULDBLOCK) return in_use_error();
  if (error != ENOLCK && error != EOPNOTSUPP && error != ENOSYS)
    return errno_status("lock", path, error);
  warn_(text("'", path, "' cannot be locked: ", std::strerror(error),
             "; two runs in this folder at a time would not be noticed"));
  held_ = true;
  return {};
}

// Asks with a lock of its own, for a moment.
Result<bool> RunFolder::in_use() const {
  const FileDescriptor file(::open(lock_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT) return false;
  if (file.get() < 0) return errno_status("open", lock_path(), errno);
  return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Status RunFolder::in_use_error() const {
  const auto holder = read_file(lock_path());
  return Status::error(Code::failed_precondition, text("'", folder_, "' is in use by another run"),
                       holder.ok() && !holder->empty() ? *holder : "it does not say by which",
                       "wait until that run has ended, or choose another train.output_dir");
}

Result<bool> RunFolder::used() const {
  for (const auto& path : {metrics(), config(), old_checkpoints(), moving_checkpoints()}) {
    MGT_ASSIGN_OR_RETURN(const bool found, exists(path));
    if (found) return true;
  }
  MGT_ASSIGN_OR_RETURN(const auto files, checkpoint_files(checkpoints()));
  return !files.empty();
}

Status RunFolder::used_error() const {
  return Status::error(
      Code::already_exists, text("'", folder_, "' already holds a run"),
      "its files would be replaced",
      "--resume continues it, --overwrite starts anew, or choose another train.output_dir");
}

Status RunFolder::begin() {
  MGT_RETURN_IF_ERROR(remove_unfinished());
  return use_ == Use::overwrite ? set_aside() : Status();
}

Status RunFolder::remove_unfinished() const {
  MGT_ASSIGN_OR_RETURN(const auto files, checkpoint_files(checkpoints()));
  for (const auto& name : files) {
    if (name.ends_with(kUnfinished)) MGT_RETURN_IF_ERROR(remove(text(checkpoints(), "/", name)));
  }
  return {};
}

Status RunFolder::set_aside() {
  for (const auto file : kFiles) {
    const std::string path = text(folder_, "/", file);
    MGT_ASSIGN_OR_RETURN(const bool found, exists(path));
    if (found && !fs::is_regular_file(path))
      return Status::error(Code::failed_precondition, text("'", path, "' is not a file"),
                           "the run writes a file of this name",
                           "move it away, or choose another train.output_dir");
  }
  MGT_ASSIGN_OR_RETURN(const bool old, used());
  if (!old) return {};
  MGT_RETURN_IF_ERROR(remove(old_checkpoints()));
  std::error_code error;
  fs::create_directories(moving_checkpoints(), error);
  if (error) return errno_status("create", moving_checkpoints(), error.value());
  for (const auto file : kFiles)
    MGT_RETURN_IF_ERROR(move_if_there(text(folder_, "/", file), text(folder_, "/", file, kAside)));
  MGT_ASSIGN_OR_RETURN(const auto names, checkpoint_files(checkpoints()));
  MGT_RETURN_IF_ERROR(move_all(checkpoints(), moving_checkpoints(), names));
  return move(moving_checkpoints(), old_checkpoints());
}

Status RunFolder::bring_back() {
  MGT_ASSIGN_OR_RETURN(const auto names, checkpoint_files(moving_checkpoints()));
  MGT_RETURN_IF_ERROR(move_all(moving_checkpoints(), checkpoints(), names));
  for (const auto file : kFiles)
    MGT_RETURN_IF_ERROR(move_if_there(text(folder_, "/", file, kAside), text(folder_, "/", file)));
  return remove(moving_checkpoints());
}

// Whether an old run is set aside and the new one has no checkpoint.
Result<bool> RunFolder::old_counts() const {
  MGT_ASSIGN_OR_RETURN(const bool aside, exists(old_checkpoints()));
  if (!aside) return false;
  MGT_ASSIGN_OR_RETURN(const auto files, checkpoint_files(checkpoints()));
  return std::all_of(files.begin(), files.end(),
                     [](const std::string& name) { return name.ends_with(kUnfinished); });
}

// Ends what begin() began, wherever it was left. Whether the old run is back.
Result<bool> RunFolder::settle() {
  MGT_ASSIGN_OR_RETURN(bool moving, exists(moving_checkpoints()));
  MGT_ASSIGN_OR_RETURN(const bool old, old_counts());
  if (old) {
    MGT_RETURN_IF_ERROR(remove_unfinished());
    MGT_RETURN_IF_ERROR(move(old_checkpoints(), moving_checkpoints()));
    moving = true;
  }
  if (moving) {
    MGT_RETURN_IF_ERROR(bring_back());
  } else {
    keep_new();
  }
  return moving;
}

void RunFolder::keep_new() {
  const auto remove_all = [&]() -> Status {
    MGT_ASSIGN_OR_RETURN(const bool aside, exists(old_checkpoints()));
    if (!aside) return {};
    for (const auto file : kFiles) MGT_RETURN_IF_ERROR(remove(text(folder_, "/", file, kAside)));
    return remove(old_checkpoints());
  };
  if (const Status status = remove_all(); !status.ok()) warn_(status.message());
}

RunFolder::~RunFolder() {
  if (lock_.get() < 0 || !held_) return;  // it was moved from, or never had
  const auto back = settle();
  if (!back.ok()) warn_(back.status().message());
  if (back.ok() && *back)
    warn_(text("the run has nothing to keep: '", folder_, "' holds the old one again"));
  if (::unlink(lock_path().c_str()) != 0 && errno != ENOENT)
    warn_(text("cannot remove '", lock_path(), "': ", std::strerror(errno)));
}

}  // namespace megatron::train
