#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.hpp"
#include "megatron/file.hpp"

namespace megatron::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

Status damaged(const std::string& path, std::string_view cause) {
  return Status::error(Code::data_loss, text("'", path, "' is not a sound safetensors file"), cause,
                       "restore the file, or use an older checkpoint");
}

Status read_at(int fd, const std::string& path, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t n =
        ::pread(fd, out.data(), std::min<size_t>(out.size(), 1U << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("read", path, errno);
    if (n == 0) return damaged(path, "it was cut short after it had been opened");
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

// Nothing when a dimension is negative or the number does not fit.
std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  uint64_t n = dtype_size(dtype);
  for (const int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(n, static_cast<uint64_t>(d), &n)) return std::nullopt;
  }
  return n;
}

}  // namespace

void SafetensorsHeader::declare(std::string name, DType dtype, std::vector<int64_t> shape) {
  TensorEntry entry{dtype, std::move(shape), data_bytes(), 0};
  const auto bytes = tensor_bytes(dtype, entry.shape);
  MGT_CHECK(bytes.has_value(), name);
  entry.end = entry.begin + *bytes;
  index_[name] = tensors_.size();
  tensors_.emplace_back(std::move(name), std::move(entry));
}

const TensorEntry& SafetensorsHeader::find(std::string_view name) const {
  const auto it = index_.find(name);
  MGT_CHECK(it != index_.end(), name);
  return tensors_[it->second].second;
}

std::string SafetensorsHeader::encode() const {
  Json header;
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  for (const auto& [name, t] : tensors_) {
    header[name] = {{"dtype", safetensors_name(t.dtype)},
                    {"shape", t.shape},
                    {"data_offsets", {t.begin, t.end}}};
  }
  std::string json = header.is_null() ? "{}" : header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');  // the data starts aligned
  const uint64_t length = json.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + json;
}

Status SafetensorsFile::create(const std::string& path, const SafetensorsHeader& header) {
  const std::string bytes = header.encode();
  MGT_RETURN_IF_ERROR(write_file(path, bytes));
  if (::truncate(path.c_str(), static_cast<off_t>(bytes.size() + header.data_bytes())) != 0)
    return errno_status("write", path, errno);
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path, SafetensorsHeader header) {
  SafetensorsFile out;
  out.path_ = path;
  out.data_begin_ = header.encode().size();
  out.header_ = std::move(header);
  out.file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.file_.get() < 0) return errno_status("open", path, errno);
  return out;
}

Status SafetensorsFile::write(std::string_view name, uint64_t offset,
                              std::span<const std::byte> bytes) {
  const TensorEntry& entry = header_.find(name);
  MGT_CHECK(offset + bytes.size() <= entry.bytes(), name);
  uint64_t at = data_begin_ + entry.begin + offset;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_.get(), bytes.data(), std::min<size_t>(bytes.size(), 1U << 30),
                               static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status("write", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return {};
}

Status SafetensorsFile::sync() {
  return ::fsync(file_.get()) == 0 ? Status() : errno_status("write", path_, errno);
}

Result<SafetensorsReader> SafetensorsReader::open(const std::string& path) {
  SafetensorsReader out;
  out.path_ = path;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return errno_status("open", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return errno_status("open", path, errno);
  const auto size = static_cast<uint64_t>(info.st_size);
  uint64_t length = 0;
  if (size < sizeof length) return damaged(path, text("it has ", size, " bytes, a header needs 8"));
  MGT_RETURN_IF_ERROR(read_at(file.get(), path, 0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kMaxHeader || length > size - sizeof length) {
    return damaged(path, text("its header claims ", length, " bytes, the file has ", size));
  }
  std::string text_bytes(length, '\0');
  MGT_RETURN_IF_ERROR(
      read_at(file.get(), path, sizeof length, std::as_writable_bytes(std::span(text_bytes))));
  const Json header = Json::parse(text_bytes, nullptr, false);
  if (!header.is_object()) return damaged(path, "its header is not a JSON object");
  out.data_begin_ = sizeof length + length;
  const uint64_t data_size = size - out.data_begin_;
  for (const auto& [name, value] : header.items()) {
    try {
      if (name == "__metadata__") {
        for (const auto& [key, item] : value.items()) out.metadata_[key] = item.get<std::string>();
        continue;
      }
      TensorEntry entry;
      const auto dtype = parse_dtype(value.at("dtype").get<std::string>());
      if (!dtype)
        return damaged(
            path, text("tensor '", name, "' has the unknown dtype ", value.at("dtype").dump()));
      entry.dtype = *dtype;
      entry.shape = value.at("shape").get<std::vector<int64_t>>();
      const auto offsets = value.at("data_offsets").get<std::vector<uint64_t>>();
      if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size) {
        return damaged(path, text("tensor '", name, "' claims bytes beyond the ", data_size,
                                  " that the file holds"));
      }
      entry.begin = offsets[0];
      entry.end = offsets[1];
      if (tensor_bytes(entry.dtype, entry.shape) != entry.bytes()) {
        return damaged(path, text("tensor '", name, "' has ", entry.bytes(),
                                  " bytes, its shape needs another number"));
      }
      out.tensors_.emplace(name, std::move(entry));
    } catch (const nlohmann::json::exception& e) {
      return damaged(path, text("entry '", name, "': ", e.what()));
    }
  }
  MGT_RETURN_IF_ERROR(out.check_cover(data_size));
  return out;
}

// The format has neither holes nor bytes that two tensors share.
Status SafetensorsReader::check_cover(uint64_t data_size) const {
  std::vector<std::pair<const TensorEntry*, std::string_view>> order;
  for (const auto& [name, entry] : tensors_) order.emplace_back(&entry, name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
  });
  uint64_t at = 0;
  for (const auto& [entry, name] : order) {
    if (entry->begin != at) {
      return damaged(path_, text("tensor '", name, "' begins at byte ", entry->begin,
                                 " of the data, the one before it ends at ", at));
    }
    at = entry->end;
  }
  if (at != data_size) {
    return damaged(path_,
                   text("its tensors end at byte ", at, " of the data, the file at ", data_size));
  }
  return {};
}

Status SafetensorsReader::read(std::string_view name, std::span<std::byte> out) const {
  const auto it = tensors_.find(name);
  MGT_CHECK(it == tensors_.end() || out.size() == it->second.bytes(), name);
  return read(name, 0, out);
}

Status SafetensorsReader::read(std::string_view name, uint64_t offset,
                               std::span<std::byte> out) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) {
    return Status::error(Code::not_found, text("'", path_, "' has no tensor '", name, "'"),
                         text("it holds ", tensors_.size(), " others"),
                         "use the file of the model that has it");
  }
  MGT_CHECK(offset + out.size() <= it->second.bytes(), name);
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return errno_status("open", path_, errno);
  return read_at(file.get(), path_, data_begin_ + it->second.begin + offset, out);
}

}  // namespace megatron::checkpoint
