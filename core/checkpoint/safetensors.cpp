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
#include "base/hash.hpp"
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

void SafetensorsWriter::declare(std::string name, DType dtype, std::vector<int64_t> shape) {
  TensorEntry entry{dtype, std::move(shape), tensors_.empty() ? 0 : tensors_.back().second.end, 0};
  const auto bytes = tensor_bytes(dtype, entry.shape);
  MGT_CHECK(bytes.has_value(), name);
  entry.end = entry.begin + *bytes;
  tensors_.emplace_back(std::move(name), std::move(entry));
}

Result<std::string> SafetensorsWriter::write(
    const std::string& path,
    const std::function<Result<std::span<const std::byte>>(std::string_view)>& data) const {
  Json header;
  if (!metadata_.empty()) header["__metadata__"] = metadata_;
  for (const auto& [name, t] : tensors_) {
    header[name] = {{"dtype", safetensors_name(t.dtype)},
                    {"shape", t.shape},
                    {"data_offsets", {t.begin, t.end}}};
  }
  std::string json = header.is_null() ? "{}" : header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');  // the data starts aligned

  MGT_ASSIGN_OR_RETURN(PendingFile file, PendingFile::create(path));
  Hasher hash;
  const auto write = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    return file.write(bytes);
  };
  const uint64_t length = json.size();
  MGT_RETURN_IF_ERROR(write(std::as_bytes(std::span(&length, 1))));
  MGT_RETURN_IF_ERROR(write(std::as_bytes(std::span(json))));
  for (const auto& [name, t] : tensors_) {
    MGT_ASSIGN_OR_RETURN(const auto bytes, data(name));
    MGT_CHECK(bytes.size() == t.bytes(), name);
    MGT_RETURN_IF_ERROR(write(bytes));
  }
  MGT_RETURN_IF_ERROR(file.commit());
  return hash.hex();
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
  if (it == tensors_.end()) {
    return Status::error(Code::not_found, text("'", path_, "' has no tensor '", name, "'"),
                         text("it holds ", tensors_.size(), " others"),
                         "use the file of the model that has it");
  }
  MGT_CHECK(out.size() == it->second.bytes(), name);
  const FileDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return errno_status("open", path_, errno);
  return read_at(file.get(), path_, data_begin_ + it->second.begin, out);
}

}  // namespace megatron::checkpoint
