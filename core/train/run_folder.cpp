#include "train/run_folder.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
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

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return text("process ", ::getpid(), " on host ", host.data());
}

}  // namespace

Result<RunFolder> RunFolder::open(const std::string& folder, Use use, Warn warn) {
  RunFolder out(folder, use, std::move(warn));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return errno_status("create", folder, error.value());
  MGT_RETURN_IF_ERROR(out.lock());
  // A process that was killed in between: the old run counts until there is a checkpoint of the
  // new.
  MGT_ASSIGN_OR_RETURN(bool left, exists(out.old_checkpoints()));
  for (const auto file : kFiles) {
    MGT_ASSIGN_OR_RETURN(const bool found, exists(text(folder, "/", file, kAside)));
    left = left || found;
  }
  if (left) {
    MGT_RETURN_IF_ERROR(out.remove_unfinished());
    MGT_ASSIGN_OR_RETURN(const auto newer, checkpoint_files(out.checkpoints()));
    out.aside_ = true;
    MGT_RETURN_IF_ERROR(newer.empty() ? out.bring_back() : out.keep_new());
  }
  MGT_ASSIGN_OR_RETURN(const bool used, out.used());
  if (used && use == Use::fresh) {
    return Status::error(
        Code::already_exists, text("'", folder, "' already holds a run"),
        "its files would be replaced",
        "--resume continues it, --overwrite starts anew, or choose another train.output_dir");
  }
  return out;
}

Status RunFolder::lock() {
  const std::string path = lock_path();
  struct stat held {};
  struct stat named {};
  do {  // until the locked file is the one that has the name: the last holder removes it
    lock_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (lock_.get() < 0) return errno_status("open", path, errno);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return not_locked(errno);
    if (::fstat(lock_.get(), &held) != 0) return errno_status("inspect", path, errno);
  } while (::stat(path.c_str(), &named) != 0 || named.st_ino != held.st_ino);
  locked_ = true;
  const std::string who = this_process();
  if (::ftruncate(lock_.get(), 0) != 0 ||
      ::pwrite(lock_.get(), who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
    return errno_status("write", path, errno);
  return {};
}

Status RunFolder::not_locked(int error) {
  const std::string path = lock_path();
  if (error == EWOULDBLOCK) {
    const auto holder = read_file(path);
    return Status::error(Code::failed_precondition,
                         text("'", folder_, "' is in use by another run"),
                         holder.ok() && !holder->empty() ? *holder : "it does not say by which",
                         "wait until that run has ended, or choose another train.output_dir");
  }
  if (error != ENOLCK && error != EOPNOTSUPP && error != ENOSYS)
    return errno_status("lock", path, error);
  warn_(text("'", path, "' cannot be locked: ", std::strerror(error),
             "; two runs in this folder at a time would not be noticed"));
  return {};
}

Result<bool> RunFolder::used() const {
  MGT_ASSIGN_OR_RETURN(const bool has_metrics, exists(metrics()));
  MGT_ASSIGN_OR_RETURN(const auto files, checkpoint_files(checkpoints()));
  return has_metrics || !files.empty();
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
  MGT_ASSIGN_OR_RETURN(aside_, used());
  MGT_ASSIGN_OR_RETURN(const auto checkpoint_names, checkpoint_files(checkpoints()));
  if (!checkpoint_names.empty()) {
    std::error_code error;
    fs::create_directory(old_checkpoints(), error);
    if (error) return errno_status("create", old_checkpoints(), error.value());
  }
  MGT_RETURN_IF_ERROR(move_all(checkpoints(), old_checkpoints(), checkpoint_names));
  for (const auto file : kFiles)
    MGT_RETURN_IF_ERROR(move_if_there(text(folder_, "/", file), text(folder_, "/", file, kAside)));
  return {};
}

Status RunFolder::bring_back() {
  aside_ = false;
  MGT_ASSIGN_OR_RETURN(const auto checkpoint_names, checkpoint_files(old_checkpoints()));
  MGT_RETURN_IF_ERROR(move_all(old_checkpoints(), checkpoints(), checkpoint_names));
  MGT_RETURN_IF_ERROR(remove(old_checkpoints()));
  for (const auto file : kFiles)
    MGT_RETURN_IF_ERROR(move_if_there(text(folder_, "/", file, kAside), text(folder_, "/", file)));
  return {};
}

Status RunFolder::keep_new() {
  if (!aside_) return {};
  aside_ = false;
  MGT_RETURN_IF_ERROR(remove(old_checkpoints()));
  for (const auto file : kFiles) MGT_RETURN_IF_ERROR(remove(text(folder_, "/", file, kAside)));
  return {};
}

RunFolder::~RunFolder() {
  if (lock_.get() < 0) return;  // it was moved from
  if (aside_) {
    const Status status = bring_back();
    warn_(status.ok() ? text("the run has nothing to keep: '", folder_, "' holds the old one again")
                      : std::string(status.message()));
  }
  if (locked_ && ::unlink(lock_path().c_str()) != 0)
    warn_(text("cannot remove '", lock_path(), "': ", std::strerror(errno)));
}

}  // namespace megatron::train
