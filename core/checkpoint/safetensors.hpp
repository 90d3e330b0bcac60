// The safetensors file format: 8 bytes little-endian header length, a JSON object name -> {dtype,
// shape, data_offsets}, then the tensors' bytes. https://github.com/huggingface/safetensors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/dtype.hpp"
#include "megatron/file.hpp"
#include "megatron/status.hpp"

namespace megatron::checkpoint {

struct TensorEntry {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};

// The tensors of a file in their order, and the metadata: its header.
class SafetensorsHeader {
 public:
  void declare(std::string name, DType dtype, std::vector<int64_t> shape);
  void set_metadata(std::string key, std::string value) {
    metadata_[std::move(key)] = std::move(value);
  }
  // The bytes before the tensors' data.
  std::string encode() const;
  uint64_t data_bytes() const { return tensors_.empty() ? 0 : tensors_.back().second.end; }
  // CHECKs that the tensor is declared.
  const TensorEntry& find(std::string_view name) const;

 private:
  std::vector<std::pair<std::string, TensorEntry>> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// A file whose tensors several processes fill in at once, each its own parts.
class SafetensorsFile {
 public:
  // The header, and room for the data: zeros until they are written.
  static Status create(const std::string& path, const SafetensorsHeader& header);
  // One that was created with the same header.
  static Result<SafetensorsFile> open(const std::string& path, SafetensorsHeader header);

  // Bytes of a tensor from `offset` on.
  Status write(std::string_view name, uint64_t offset, std::span<const std::byte> bytes);
  // What was written is on the disk.
  Status sync();

 private:
  std::string path_;
  SafetensorsHeader header_;
  uint64_t data_begin_ = 0;
  FileDescriptor file_;
};

// Reads the header at once and tensors on demand. Damage of the header is one error that names the
// file.
class SafetensorsReader {
 public:
  static Result<SafetensorsReader> open(const std::string& path);
  const std::map<std::string, TensorEntry, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  // Copies a tensor's bytes; `out` has exactly that many.
  Status read(std::string_view name, std::span<std::byte> out) const;
  // Some of them, from `offset` on.
  Status read(std::string_view name, uint64_t offset, std::span<std::byte> out) const;

 private:
  Status check_cover(uint64_t data_size) const;

  std::string path_;
  uint64_t data_begin_ = 0;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace megatron::checkpoint
