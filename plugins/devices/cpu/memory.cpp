#include "memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "megatron/status.hpp"

namespace megatron::cpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

void* map_anonymous(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

[[noreturn]] void fail(size_t bytes) {
  throw StatusError(Status::error(
      Code::resource_exhausted,
      text("device 'cpu' cannot allocate ", bytes, " bytes (", bytes >> 20, " MiB)"),
      text("mmap failed: ", std::strerror(errno)),
      "use a smaller micro-batch or a layout with more ranks, or raise the memory limit"));
}

}  // namespace

MemoryBlocks::~MemoryBlocks() {
  for (const auto& [memory, bytes] : sizes_) munmap(memory, bytes);
}

void* MemoryBlocks::allocate(size_t bytes) {
  const bool huge = bytes >= kHugePage;
  const size_t size = round_up(bytes, huge ? kHugePage : kPage);
  void* memory = nullptr;
  if (!huge) {
    memory = map_anonymous(size);
  } else if (char* wide = static_cast<char*>(map_anonymous(size + kHugePage))) {
    // Cuts the aligned part out of a mapping that is one huge page too long.
    const size_t front =
        round_up(reinterpret_cast<uintptr_t>(wide), kHugePage) - reinterpret_cast<uintptr_t>(wide);
    if (front > 0) munmap(wide, front);
    if (front < kHugePage) munmap(wide + front + size, kHugePage - front);
    memory = wide + front;
    madvise(memory, size, MADV_HUGEPAGE);  // best effort: without it the same memory, slower
  }
  if (memory == nullptr) fail(bytes);
  const std::lock_guard lock(mutex_);
  sizes_[memory] = size;
  return memory;
}

void MemoryBlocks::free(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto it = sizes_.find(memory);
  if (it == sizes_.end()) return;
  munmap(memory, it->second);
  sizes_.erase(it);
}

}  // namespace megatron::cpu
