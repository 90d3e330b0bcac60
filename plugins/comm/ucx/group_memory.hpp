// What a rank shows to the other local ranks of one group: how far it is, its arrival at each
// collective, room for staged data, and one channel of messages to each of them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "message.hpp"
#include "segments.hpp"

namespace megatron::ucx {

inline constexpr uint32_t kEntries = 8;             // collectives that may be announced
inline constexpr size_t kInlineBytes = 8192;        // that travel with the announcement …
inline constexpr size_t kAlwaysInlineBytes = 2048;  // … even when others can read the buffer
inline constexpr size_t kStageBytes = size_t{256} << 10;  // of each of the two halves
inline constexpr uint32_t kCells = 16;                    // messages in a channel
inline constexpr size_t kCellBytes = size_t{16} << 10;

struct alignas(64) Counter {
  std::atomic<uint64_t> value;
};

// Each counts up for ever; a line of its own, since others read it while they wait.
struct Progress {
  Counter finished;  // collectives: their entries may be used again
  Counter direct;    // collectives in which this rank is through with the others' buffers
  Counter staged;    // rounds: own data lies in the stage
  Counter reduced;   // rounds of all_reduce: own slice's result lies in the stage
  Counter consumed;  // rounds: the others' stages are no longer needed
  Counter started;   // of groups of several hosts: collectives that the caller has started
};

// The report of a rank that gave up, for those that wait for it.
struct Failure {
  std::atomic<uint32_t> code;  // 0: none
  uint32_t size;
  char text[4000];
};

struct Description {
  uint32_t kind, dtype, reduce, peer;
  uint64_t count;
  uint32_t name_size;
  char name[164];
};

// `Location::segment` of data that lies in the entry's payload, and of no data.
inline constexpr uint32_t kInPayload = ~uint32_t{0}, kNoData = kInPayload - 1;

// Others look at `arrival` while it is awaited: it is written once, alone in its lines, since each
// further store would fetch the line back from those who look.
struct Entry {
  alignas(128) std::atomic<uint64_t> arrival;  // arrival_of(), written last
  alignas(128) Location send, recv;            // of what does not travel inline
  uint64_t extent;  // all_to_all_v: elements of the largest block that is sent
  alignas(128) std::byte payload[kInlineBytes];
  Description description;
};

// Number of a collective, from 1, and what its ranks must agree on.
constexpr uint64_t arrival_of(uint64_t sequence, uint64_t signature) {
  return (sequence + 1) << 32 | (signature & 0xffffffff);
}
constexpr uint32_t number_of(uint64_t arrival) { return static_cast<uint32_t>(arrival >> 32); }

struct Cell {
  enum Kind : uint32_t { copied, direct };
  alignas(64) std::atomic<uint64_t> posted;  // number in the channel + 1
  MessageKey key;
  uint64_t total;   // bytes of the message
  uint64_t offset;  // of this part
  uint32_t bytes;   // of this part
  uint32_t kind;
  Location source;                          // of a direct message
  alignas(64) std::atomic<uint64_t> taken;  // = posted: the cell is free, the message was read
  alignas(64) std::byte payload[kCellBytes];
};

class GroupMemory {
 public:
  static constexpr size_t round_up(size_t n) { return (n + 4095) / 4096 * 4096; }
  // Of this, the start that every collective uses; channels are touched when used.
  static size_t size(uint32_t members) {
    return kChannels + members * round_up(kCells * sizeof(Cell));
  }

  GroupMemory() = default;
  explicit GroupMemory(std::byte* data) : data_(data) {}
  Progress& progress() const { return *at<Progress>(0); }
  Failure& failure() const { return *at<Failure>(kFailure); }
  Entry& entry(uint64_t sequence) const { return at<Entry>(kEntriesAt)[sequence % kEntries]; }
  std::byte* stage(uint64_t round) const { return data_ + kStage + round % 2 * kStageBytes; }
  Cell& cell(uint32_t to, uint64_t number) const {
    return at<Cell>(kChannels + to * round_up(kCells * sizeof(Cell)))[number % kCells];
  }

 private:
  static constexpr size_t kFailure = 4096, kEntriesAt = 2 * kFailure;
  static constexpr size_t kStage = (kEntriesAt + kEntries * sizeof(Entry) + 4095) / 4096 * 4096;
  static constexpr size_t kChannels = kStage + 2 * kStageBytes;
  static_assert(sizeof(Progress) <= kFailure && sizeof(Failure) <= 4096);

  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(data_ + offset);
  }
  std::byte* data_ = nullptr;
};

}  // namespace megatron::ucx
