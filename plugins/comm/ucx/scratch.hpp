// Working memory of a group's collectives, kept between them: fresh pages cost more than the sums.
#pragma once

#include <cstddef>
#include <memory>

namespace megatron::ucx {

class Scratch {
 public:
  void begin() { used_ = 0; }
  // All parts of one collective together; pointers of an earlier collective become invalid.
  void reserve(size_t bytes) {
    if (bytes <= size_) return;
    data_.reset();
    data_.reset(new (std::align_val_t{4096}) std::byte[bytes]);
    size_ = bytes;
  }
  std::byte* take(size_t bytes) {
    std::byte* out = data_.get() + used_;
    used_ += rounded(bytes);
    return out;
  }
  static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{4096}); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0, used_ = 0;
};

}  // namespace megatron::ucx
