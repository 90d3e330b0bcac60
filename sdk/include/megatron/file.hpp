// Files that are either complete or absent: a read-only memory map, and an output that takes its
// final name only on commit. POSIX; used by the index formats of the sdk and by plugins' caches.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "megatron/status.hpp"

namespace megatron {

// Owns a descriptor: closed once, never copied. -1 = none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }
  int get() const { return fd_; }
  int close() {  // 0, or -1 with errno
    const int fd = std::exchange(fd_, -1);
    return fd < 0 ? 0 : ::close(fd);
  }

 private:
  int fd_;
};

namespace detail {
inline Code code_of_errno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Code::not_found;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::permission_denied;
    case EEXIST:
      return Code::already_exists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::resource_exhausted;
    default:
      return Code::unavailable;
  }
}

inline const char* action_of_errno(int error) {
  switch (error) {
    case EMFILE:
      return "raise the limit on open files (ulimit -n)";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f), or choose another place";
    case ENOMEM:
      return "free memory, or raise the limit on it (ulimit -v, the container's)";
    default:
      break;
  }
  switch (code_of_errno(error)) {
    case Code::not_found:
      return "correct the path, or create the missing file or folder";
    case Code::permission_denied:
      return "change the permissions, or choose another place";
    case Code::resource_exhausted:
      return "free space (or raise the limit), or choose another place";
    default:
      return "look at the file and its folder with `ls -ld`";
  }
}

// One place for the three lines that an operating system's refusal becomes.
inline Status errno_status(std::string_view what, std::string_view path, int error) {
  const char* action = action_of_errno(error);
  return Status::error(code_of_errno(error), text("cannot ", what, " ", path),
                       text("the system says: ", std::strerror(error)), action);
}

// Makes a rename or removal in the folder of `path` durable; best effort (some file systems
// refuse).
inline void sync_folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) static_cast<void>(::fsync(fd.get()));
}

// For reading whole files: what has no end, or would make the opening wait for a writer, is
// refused.
inline Result<FileDescriptor> open_regular(const std::string& path) {
  if (path.empty())
    return invalid_argument("cannot open a file", "its path is empty", "name the file");
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return errno_status("open", path, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return errno_status("inspect", path, errno);
  if (S_ISDIR(info.st_mode)) return errno_status("read", path, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(text("cannot read ", path),
                            "the system says: it is a device, a pipe or a socket, not a file",
                            "name a regular file");
  }
  return fd;
}

constexpr std::string_view kPendingMark = ".tmp.";  // then the process, '.', a serial

// Removes pending files of `path` that nobody writes any more. Their writer holds a lock until it
// ends, however it ends; where the file system has no locks, nothing is removed.
inline void remove_abandoned(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "./" : path.substr(0, slash + 1);
  const std::string start = text(path.substr(slash + 1), kPendingMark);  // npos + 1 is 0
  const std::unique_ptr<DIR, int (*)(DIR*)> names(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = names ? ::readdir(names.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(start) ||
        name.find_first_not_of("0123456789.", start.size()) != std::string_view::npos)
      continue;
    const std::string pending = text(folder, name);
    const FileDescriptor fd(
        ::open(pending.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(pending.c_str());
  }
}

// Marks a new file as being written. False when remove_abandoned() of another process took it for
// abandoned in the moment before.
inline bool lock_pending(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat info {};
  return ::fstat(fd, &info) == 0 && info.st_nlink > 0;
}
}  // namespace detail

// The bytes of a whole file, read-only. A file that shrinks while it is mapped kills the process
// (SIGBUS): writers must replace files by rename, as PendingFile does.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path) {
    MGT_ASSIGN_OR_RETURN(const FileDescriptor fd, detail::open_regular(path));
    struct stat info {};
    if (::fstat(fd.get(), &info) != 0) return detail::errno_status("inspect", path, errno);
    MappedFile file;
    file.path_ = path;
    file.size_ = static_cast<size_t>(info.st_size);
    if (file.size_ > 0) {  // mmap refuses an empty range
      void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd.get(), 0);
      if (data == MAP_FAILED) return detail::errno_status("map", path, errno);
      file.data_ = static_cast<const std::byte*>(data);
    }
    return file;
  }

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // A T at any byte offset: these formats do not align their sections.
  template <class T>
  T load(size_t offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

 private:
  void swap(MappedFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Buffered output under a temporary name in the target's folder. commit() makes it durable and
// gives it its name; without commit the destructor removes it, and of a process that was killed the
// next create() for the same path does. One thread at a time.
class PendingFile {
 public:
  static Result<PendingFile> create(const std::string& path) {
    static std::atomic<uint32_t> serial{0};
    detail::remove_abandoned(path);
    PendingFile file;
    file.path_ = path;
    // Two attempts of one process differ by the serial, two processes by the pid; a file of another
    // machine on a shared disk makes O_EXCL fail, so try on.
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::string candidate =
          text(path, detail::kPendingMark, static_cast<int64_t>(::getpid()), ".", serial++);
      FileDescriptor fd(::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
      if (fd.get() >= 0) {
        if (!detail::lock_pending(fd.get())) continue;
        file.fd_ = std::move(fd);
        file.temporary_ = std::move(candidate);
        file.buffer_ = std::make_unique<std::byte[]>(kBufferSize);
        return file;
      }
      if (errno != EEXIST) break;
    }
    return detail::errno_status("create", path, errno);
  }

  PendingFile() = default;
  PendingFile(PendingFile&& other) noexcept { swap(other); }
  PendingFile& operator=(PendingFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PendingFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Status write(std::span<const std::byte> bytes) {
    size_ += bytes.size();
    if (fill_ + bytes.size() <= kBufferSize) {
      if (!bytes.empty()) std::memcpy(buffer_.get() + fill_, bytes.data(), bytes.size());
      fill_ += bytes.size();
      return {};
    }
    MGT_RETURN_IF_ERROR(flush());
    if (bytes.size() >= kBufferSize) return write_through(bytes);
    std::memcpy(buffer_.get(), bytes.data(), bytes.size());
    fill_ = bytes.size();
    return {};
  }
  template <class T>
  Status write_value(T value) {
    return write(std::as_bytes(std::span(&value, 1)));
  }

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // bytes written so far

  // Everything is on the disk under the temporary name.
  Status sync() {
    MGT_RETURN_IF_ERROR(flush());
    if (::fsync(fd_.get()) != 0) return detail::errno_status("write", path_, errno);
    return {};
  }
  // sync(), then the final name, replacing what was there.
  Status commit() {
    MGT_RETURN_IF_ERROR(sync());
    // Renamed while it is locked: nobody may take it for abandoned.
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      return detail::errno_status("write", path_, errno);
    temporary_.clear();
    if (fd_.close() != 0) return detail::errno_status("write", path_, errno);
    detail::sync_folder_of(path_);
    return {};
  }

 private:
  static constexpr size_t kBufferSize = size_t{1} << 18;

  Status flush() {
    const size_t n = std::exchange(fill_, 0);
    return write_through({buffer_.get(), n});
  }
  Status write_through(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return detail::errno_status("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  void swap(PendingFile& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(temporary_, other.temporary_);
    std::swap(fd_, other.fd_);
    std::swap(buffer_, other.buffer_);
    std::swap(fill_, other.fill_);
    std::swap(size_, other.size_);
  }

  std::string path_, temporary_;
  FileDescriptor fd_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t fill_ = 0;
  uint64_t size_ = 0;
};

}  // namespace megatron
