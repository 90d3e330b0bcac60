#include "kill_points.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace {

int limit = 0;  // 0 = not armed
int seen = 0;

bool due() { return limit > 0 && ++seen == limit; }
[[noreturn]] void die() { ::_exit(99); }

std::string_view refused_path;  // "" = none
bool plain_renames = false;

int fail(int error) {
  errno = error;
  return -1;
}
bool refused(const char* path) {
  return !refused_path.empty() && std::string_view(path).ends_with(refused_path);
}
int rename_as(const char* from, const char* to, unsigned int flags) {
  if (refused(from) || refused(to)) return fail(EBUSY);
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags));
}
int remove_as(int fd, const char* path, int flags) {
  if (refused(path)) return fail(EBUSY);
  return static_cast<int>(::syscall(SYS_unlinkat, fd, path, flags));
}

}  // namespace

void megatron::kill_at(int n) {
  limit = n;
  seen = 0;
}
int megatron::kill_points_seen() { return seen; }
megatron::Refuse::Refuse(std::string_view path) { refused_path = path; }
megatron::Refuse::~Refuse() { refused_path = {}; }
megatron::PlainRenames::PlainRenames() { plain_renames = true; }
megatron::PlainRenames::~PlainRenames() { plain_renames = false; }

// The symbols of the C library are weak against the program's own, for its shared libraries too.
extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  if (due()) {
    ::syscall(SYS_write, fd, data, size / 2);
    die();
  }
  return ::syscall(SYS_write, fd, data, size);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  if (due()) {
    ::syscall(SYS_pwrite64, fd, data, size / 2, offset);
    die();
  }
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}
int truncate(const char* path, off_t size) noexcept {
  if (due()) die();
  return static_cast<int>(::syscall(SYS_truncate, path, size));
}
int fsync(int fd) {
  if (due()) die();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int rename(const char* from, const char* to) noexcept {
  if (due()) die();
  return rename_as(from, to, 0);
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to,
              unsigned int flags) noexcept {
  if (due()) die();
  if (from_fd != AT_FDCWD || to_fd != AT_FDCWD) return fail(ENOSYS);  // nothing here calls it so
  return plain_renames ? fail(EINVAL) : rename_as(from, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (due()) die();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int unlinkat(int fd, const char* path, int flags) noexcept {
  if (due()) die();
  return remove_as(fd, path, flags);
}
int unlink(const char* path) noexcept {
  if (due()) die();
  return remove_as(AT_FDCWD, path, 0);
}
int rmdir(const char* path) noexcept {
  if (due()) die();
  return remove_as(AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) noexcept {
  if (due()) die();
  const int removed = remove_as(AT_FDCWD, path, 0);
  return removed != 0 && errno == EISDIR ? remove_as(AT_FDCWD, path, AT_REMOVEDIR) : removed;
}

}  // extern "C"
