// From a pair of neighbouring ids to the merge that joins them: open addressing over 16-byte
// entries.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace megatron::gpt2 {

struct Merge {
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  int32_t rank = kNone;  // position in merges.txt; the lowest is applied first
  int32_t id = -1;       // what the pair becomes
};

class PairTable {
 public:
  explicit PairTable(size_t pairs = 0)
      : slots_(std::bit_ceil(pairs * 2 + 2)), mask_(slots_.size() - 1) {}

  // False when the pair is there already.
  bool insert(int32_t left, int32_t right, Merge merge) {
    auto& slot = slots_[place(key(left, right))];
    if (slot.merge.rank != Merge::kNone) return false;
    slot = {key(left, right), merge};
    return true;
  }
  Merge find(int32_t left, int32_t right) const { return slots_[place(key(left, right))].merge; }

 private:
  struct Slot {
    uint64_t key = 0;
    Merge merge;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // The pair's slot, or the free one where it would go.
  size_t place(uint64_t k) const {
    auto i = static_cast<size_t>((k * 0x9E3779B97F4A7C15) >> 32) & mask_;
    while (slots_[i].merge.rank != Merge::kNone && slots_[i].key != k) i = (i + 1) & mask_;
    return i;
  }
  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace megatron::gpt2
