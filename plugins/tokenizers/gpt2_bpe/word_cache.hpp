// The ids of words seen lately: text repeats its words, and a look-up costs a tenth of the merging.
// One cache a thread, so nothing is locked; a fixed 2 MiB, a newer word replaces an older one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace megatron::gpt2 {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 32;  // longer words, and words of more ids, are not kept
  static constexpr size_t kMaxIds = 7;

  struct alignas(64) Slot {                     // one cache line
    std::array<uint64_t, kMaxBytes / 8> key{};  // the word's bytes, zero behind them
    std::array<int32_t, kMaxIds> ids{};
    uint8_t bytes = 0;  // 0: free
    uint8_t count = 0;
  };
  static_assert(sizeof(Slot) == 64);

  // The calling thread's cache, emptied when it served another owner before.
  static WordCache& of_thread(uint64_t owner) {
    thread_local WordCache cache;
    if (cache.owner_ != owner) {
      cache.slots_.assign(kSlots, Slot{});
      cache.owner_ = owner;
    }
    return cache;
  }

  struct Key {
    std::array<uint64_t, kMaxBytes / 8> words;
    size_t slot;
  };
  // `word` has 1 to kMaxBytes bytes and starts a text of `readable` bytes: reading a fixed number
  // of them is cheaper than reading as many as the word has.
  static Key key(std::string_view word, size_t readable) {
    Key k{};
    if (readable >= kMaxBytes) {
      std::memcpy(k.words.data(), word.data(), kMaxBytes);
      for (size_t i = 0; i < k.words.size(); ++i) k.words[i] &= mask(word.size(), i);
    } else {
      std::memcpy(k.words.data(), word.data(), word.size());
    }
    uint64_t h = word.size();
    for (const auto w : k.words) h = (h ^ w) * 0x9E3779B97F4A7C15, h ^= h >> 29;
    k.slot = static_cast<size_t>(h >> 20) & (kSlots - 1);
    return k;
  }

  // The slot that holds the word, or nullptr.
  const Slot* find(const Key& k, size_t bytes) const {
    const Slot& slot = slots_[k.slot];
    return slot.bytes == bytes && slot.key == k.words ? &slot : nullptr;
  }
  void store(const Key& k, size_t bytes, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    Slot& slot = slots_[k.slot];
    slot.key = k.words;
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
    slot.bytes = static_cast<uint8_t>(bytes);
    slot.count = static_cast<uint8_t>(ids.size());
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15;

  // Ones over the bytes of 8-byte group `group` that lie within the first `bytes`.
  static uint64_t mask(size_t bytes, size_t group) {
    const size_t begin = group * 8;
    if (bytes >= begin + 8) return ~uint64_t{0};
    return bytes <= begin ? 0 : (uint64_t{1} << ((bytes - begin) * 8)) - 1;
  }

  std::vector<Slot> slots_;
  uint64_t owner_ = 0;
};

}  // namespace megatron::gpt2
