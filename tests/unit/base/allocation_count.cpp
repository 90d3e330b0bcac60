// operator new that counts, for the whole test program. In its own file: inlined into callers, g++
// takes malloc/free inside of new/delete for a mismatch.
#include "allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t>& count() {
  static std::atomic<int64_t> instance{0};
  return instance;
}
}  // namespace

int64_t megatron::allocation_count() { return count(); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t size) {
  count().fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif
