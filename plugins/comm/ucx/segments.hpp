// The memory that allocate() gave: every rank's part of every allocation, as mapped here. A buffer
// inside it can be read and written by the other ranks of this host without a copy.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "shared_memory.hpp"

namespace megatron::ucx {

// A place in a rank's allocations that other ranks can find. segment 0: private memory.
struct Location {
  uint32_t segment = 0;
  uint32_t reserved = 0;
  uint64_t offset = 0;
};

class Segments {
 public:
  // `parts`: one a local rank, in the order of LocalPeers; `self` is this rank's.
  void* add(uint32_t serial, std::vector<SharedMemory> parts, uint32_t self) {
    std::byte* own = parts[self].data();
    by_address_[own] = {serial, parts[self].size()};
    by_serial_[serial] = std::move(parts);
    return own;
  }
  bool remove(void* memory) {
    const auto at = by_address_.find(static_cast<std::byte*>(memory));
    if (at == by_address_.end()) return false;
    by_serial_.erase(at->second.serial);
    by_address_.erase(at);
    return true;
  }

  Location find(const std::byte* data, uint64_t bytes) const {
    auto at = by_address_.upper_bound(const_cast<std::byte*>(data));
    if (at == by_address_.begin()) return {};
    --at;
    const auto offset = static_cast<uint64_t>(data - at->first);
    if (offset + bytes > at->second.bytes) return {};
    return {at->second.serial, 0, offset};
  }
  // Null: unknown here (freed already).
  std::byte* address(uint32_t peer, Location location) const {
    const auto at = by_serial_.find(location.segment);
    if (at == by_serial_.end()) return nullptr;
    return at->second[peer].data() + location.offset;
  }

 private:
  struct Own {
    uint32_t serial;
    uint64_t bytes;
  };
  std::map<std::byte*, Own> by_address_;
  std::map<uint32_t, std::vector<SharedMemory>> by_serial_;
};

}  // namespace megatron::ucx
