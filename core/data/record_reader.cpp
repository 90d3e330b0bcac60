#include "data/record_reader.hpp"

#include <poll.h>

#include <algorithm>

namespace megatron::data {
namespace {

constexpr size_t kBatchBytes = size_t{1} << 20;
constexpr int kStopInterval = 100;  // milliseconds

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::string_view without_return(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

Status check_plain(const std::string& path, std::string_view start) {
  const bool gzip = start.starts_with("\x1f\x8b"), zstd = start.starts_with("\x28\xb5\x2f\xfd");
  if (!gzip && !zstd) return {};
  return Status::error(Code::unimplemented, text("cannot read ", path),
                       text("it is compressed with ", gzip ? "gzip" : "zstd"),
                       text("decompress it first: ", gzip ? "gunzip -k " : "zstd -d ", path));
}

}  // namespace

Result<RecordReader> RecordReader::open(const std::string& path, RecordKind kind, StopFlag stop) {
  RecordReader reader;
  reader.stop_ = stop;
  reader.path_ = path;
  reader.kind_ = kind;
  reader.fd_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (reader.fd_.get() < 0 || ::fstat(reader.fd_.get(), &info) != 0) {
    const int error = errno;
    MGT_RETURN_IF_ERROR(check_stop(stop));  // a pipe without a writer, and a signal
    return detail::errno_status("open", path, error);
  }
  if (S_ISDIR(info.st_mode)) {
    return invalid_argument(text("cannot read ", path), "it is a folder", "name the files in it");
  }
  if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
    return invalid_argument(text("cannot read ", path), "it is a device", "name a file or a pipe");
  }
  reader.size_ = static_cast<int64_t>(info.st_size);
  char start[4];
  const auto n = ::pread(reader.fd_.get(), start, sizeof start, 0);
  MGT_RETURN_IF_ERROR(check_plain(path, {start, n > 0 ? static_cast<size_t>(n) : 0}));
  return reader;
}

Status RecordReader::wait_for_input() const {
  pollfd input{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  int ready = 0;
  while (ready == 0 || (ready < 0 && errno == EINTR)) {
    MGT_RETURN_IF_ERROR(check_stop(stop_));
    ready = ::poll(&input, 1, kStopInterval);
  }
  return ready > 0 ? Status() : detail::errno_status("read", path_, errno);
}

Result<bool> RecordReader::fill(std::string& data, size_t bytes) {
  const size_t old_size = data.size();
  data.resize(old_size + bytes);
  size_t got = 0;
  while (got < bytes) {
    MGT_RETURN_IF_ERROR(wait_for_input());
    const ssize_t n = ::read(fd_.get(), data.data() + old_size + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return detail::errno_status("read", path_, errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  data.resize(old_size + got);
  return got == bytes;
}

size_t RecordReader::border(std::string_view data) const {
  if (kind_ == RecordKind::file) return 0;
  size_t end = data.rfind('\n');
  if (kind_ == RecordKind::line) return end == std::string_view::npos ? 0 : end + 1;
  while (end != std::string_view::npos && end > 0) {  // the last blank line
    const size_t before = data.rfind('\n', end - 1);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (blank(data.substr(begin, end - begin))) return end + 1;
    end = before;
  }
  return 0;
}

Result<bool> RecordReader::next(Batch& batch) {
  if (ended_) return false;
  batch.path = path_;
  batch.records.clear();
  batch.data = std::exchange(carry_, {});
  size_t end = 0;
  while (!ended_ && end == 0) {
    // Doubling keeps the search for a border linear however long a record is.
    MGT_ASSIGN_OR_RETURN(const bool more,
                         fill(batch.data, std::max(kBatchBytes, batch.data.size())));
    ended_ = !more;
    end = ended_ ? batch.data.size() : border(batch.data);
  }
  carry_ = batch.data.substr(end);
  batch.data.resize(end);
  switch (kind_) {
    case RecordKind::line:
      cut_lines(batch);
      break;
    case RecordKind::paragraph:
      cut_paragraphs(batch);
      break;
    case RecordKind::file:
      batch.records.push_back({0, batch.data.size(), 1});
      break;
  }
  return true;
}

void RecordReader::cut_lines(Batch& batch) {
  const std::string_view data = batch.data;
  for (size_t at = 0; at < data.size(); ++line_) {
    const size_t end = std::min(data.find('\n', at), data.size());
    batch.records.push_back({at, without_return(data.substr(at, end - at)).size(), line_});
    at = end + 1;
  }
}

void RecordReader::cut_paragraphs(Batch& batch) {
  const std::string_view data = batch.data;
  Record open;  // line 0: none
  for (size_t at = 0; at < data.size(); ++line_) {
    const size_t end = std::min(data.find('\n', at), data.size());
    const auto line = without_return(data.substr(at, end - at));
    if (blank(line)) {
      if (open.line > 0) batch.records.push_back(open);
      open = {};
    } else {
      if (open.line == 0) open = {at, 0, line_};
      open.size = at + line.size() - open.offset;
    }
    at = end + 1;
  }
  if (open.line > 0) batch.records.push_back(open);
}

}  // namespace megatron::data
