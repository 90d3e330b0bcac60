// What this rank is doing, for the report when another rank waits for it in vain. Written by the
// executing thread without locks or allocation, read by the heartbeat.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace megatron::launch {

class Activity {
 public:
  // Keeps the first kCapacity bytes.
  void set(std::string_view what);
  std::string get() const;

 private:
  static constexpr size_t kCapacity = 192;
  // A sequence lock: odd while the text changes. The bytes are atomic so that a torn read is no
  // data race.
  std::atomic<uint32_t> version_{0};
  std::atomic<uint32_t> size_{0};
  std::array<std::atomic<char>, kCapacity> bytes_{};
};

}  // namespace megatron::launch
