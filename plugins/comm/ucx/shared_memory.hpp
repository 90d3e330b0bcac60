// Memory that several processes map. It has no name anywhere: the last process that ends takes it
// along, however it ends.
#pragma once

#include <cstddef>

#include "megatron/file.hpp"

namespace megatron::ucx {

class SharedMemory {
 public:
  enum class Pages { lazily, now };  // when the page table is filled

  // Zeroed. `label` shows in /proc/<pid>/maps.
  static Result<SharedMemory> create(const char* label, size_t bytes, Pages pages);
  // Memory of another process, by a descriptor that it sent. DATA_LOSS: smaller than `bytes`.
  static Result<SharedMemory> map(FileDescriptor fd, size_t bytes, Pages pages);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int descriptor() const { return fd_.get(); }
  // Other processes have it now; mappings do not need it.
  void close_descriptor() { fd_.close(); }

 private:
  void swap(SharedMemory& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace megatron::ucx
