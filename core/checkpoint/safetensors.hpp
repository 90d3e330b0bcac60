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
#include "megatron/status.hpp"

namespace megatron::checkpoint {

struct TensorEntry {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};

// Writes tensors one after the other; all are declared first, so that data streams.
class SafetensorsWriter {
 public:
  void declare(std::string name, DType dtype, std::vector<int64_t> shape);
  void set_metadata(std::string key, std::string value) {
    metadata_[std::move(key)] = std::move(value);
  }
  // `data(name)` gives each tensor's bytes, in the order of declaration; borrowed until the next
  // call. The file is complete and on the disk when this returns; its XXH3-128 comes back.
  Result<std::string> write(
      const std::string& path,
      const std::function<Result<std::span<const std::byte>>(std::string_view name)>& data) const;

 private:
  std::vector<std::pair<std::string, TensorEntry>> tensors_;
  std::map<std::string, std::string> metadata_;
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

 private:
  Status check_cover(uint64_t data_size) const;

  std::string path_;
  uint64_t data_begin_ = 0;
  std::map<std::string, TensorEntry, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace megatron::checkpoint
