// Memory straight from the kernel: a first touch costs 2.3 us a 4 KiB page but 0.14 s a GiB with
// huge pages, so large blocks are aligned to 2 MiB and ask for them.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace megatron::cpu {

class MemoryBlocks {
 public:
  MemoryBlocks() = default;
  MemoryBlocks(const MemoryBlocks&) = delete;
  MemoryBlocks& operator=(const MemoryBlocks&) = delete;
  ~MemoryBlocks();

  // Zeroed, aligned to 4096 bytes, to 2 MiB when it is that large. Throws StatusError.
  void* allocate(size_t bytes);
  // Ignores null; `memory` came from allocate.
  void free(void* memory) noexcept;

 private:
  std::mutex mutex_;
  std::map<void*, size_t> sizes_;  // as mapped
};

}  // namespace megatron::cpu
