#include "base/file.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>

#include "megatron/file.hpp"

namespace megatron {

Status errno_status(std::string_view what, std::string_view path, int error) {
  return detail::errno_status(what, path, error);
}

Result<std::string> read_file(const std::string& path) {
  MGT_ASSIGN_OR_RETURN(const FileDescriptor fd, detail::open_regular(path));
  std::string bytes;
  size_t filled = 0;
  while (true) {
    if (filled == bytes.size()) bytes.resize(filled == 0 ? size_t{1} << 16 : 2 * filled);
    const ssize_t n = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("read", path, errno);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  bytes.resize(filled);
  return bytes;
}

Status write_file(const std::string& path, std::string_view bytes) {
  MGT_ASSIGN_OR_RETURN(PendingFile file, PendingFile::create(path));
  MGT_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(bytes))));
  return file.commit();
}

std::string absolute_path(std::string_view path, std::string_view folder) {
  namespace fs = std::filesystem;
  if (path.empty()) return {};
  std::error_code ignored;  // the current directory may have been removed
  fs::path base = folder.empty() ? fs::current_path(ignored) : fs::path(folder);
  std::string out = (base / path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

}  // namespace megatron
