#include "launch/activity.hpp"

#include <algorithm>

namespace megatron::launch {

void Activity::set(std::string_view what) {
  what = what.substr(0, kCapacity);
  const uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < what.size(); ++i) bytes_[i].store(what[i], std::memory_order_relaxed);
  size_.store(static_cast<uint32_t>(what.size()), std::memory_order_relaxed);
  version_.store(version + 2, std::memory_order_release);
}

std::string Activity::get() const {
  for (;;) {
    const uint32_t before = version_.load(std::memory_order_acquire);
    std::string out(size_.load(std::memory_order_relaxed), '\0');
    for (size_t i = 0; i < out.size(); ++i) out[i] = bytes_[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) return out;
  }
}

}  // namespace megatron::launch
