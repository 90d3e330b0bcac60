// The members of a group on this host, as its collectives see them: their memory, by position in
// the group.
#pragma once

#include <vector>

#include "engine.hpp"
#include "group_memory.hpp"

namespace megatron::ucx {

class Team {
 public:
  struct Member {
    uint32_t rank;   // of the world
    uint32_t local;  // among the ranks of this host
    SharedMemory memory;
  };
  Team(Engine& engine, const Segments& segments, std::vector<Member> members, uint32_t self)
      : engine_(engine), segments_(segments), members_(std::move(members)), self_(self) {
    for (const auto& m : members_) views_.emplace_back(m.memory.data());
    for (auto& seen : seen_) seen.assign(members_.size(), 0);
  }

  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t self() const { return self_; }
  uint32_t rank(uint32_t member) const { return members_[member].rank; }
  const GroupMemory& memory(uint32_t member) const { return views_[member]; }
  const GroupMemory& own() const { return views_[self_]; }

  Location find(const std::byte* data, uint64_t bytes) const {
    return bytes == 0 ? Location{} : segments_.find(data, bytes);
  }
  std::byte* address(uint32_t member, Location location) const {
    return segments_.address(members_[member].local, location);
  }

  // A second exchange costs more than copying some kilobytes when ranks share processors.
  bool exchanges_are_slow() const { return engine_.oversubscribed(); }

  // Working space of the collective that runs; kept between them.
  struct Pointers {
    std::vector<std::byte*> sends, recvs, targets;
    std::vector<const std::byte*> sources;
  };
  Pointers& pointers() { return pointers_; }

  enum Which { finished, direct, staged, reduced, consumed, started, kWhich };

  uint64_t count(Which which) const {
    return counter(self_, which).load(std::memory_order_relaxed);
  }
  // Makes everything written before visible with it. Sleepers are woken by ring_all().
  void publish(Which which, uint64_t value) {
    counter(self_, which).store(value, std::memory_order_release);
  }
  // All others are that far.
  bool reached(Which which, uint64_t value) {
    for (uint32_t i = 0; i < size(); ++i) {
      if (i == self_ || seen_[which][i] >= value) continue;
      seen_[which][i] = counter(i, which).load(std::memory_order_acquire);
      if (seen_[which][i] < value) return false;
    }
    return true;
  }
  void ring(uint32_t member) { engine_.ring(members_[member].local); }
  void ring_all() {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // see Engine::sleep
    for (const auto& m : members_) engine_.ring(m.local);
  }

 private:
  std::atomic<uint64_t>& counter(uint32_t member, Which which) const {
    return (&views_[member].progress().finished)[which].value;
  }
  Engine& engine_;
  const Segments& segments_;
  std::vector<Member> members_;
  uint32_t self_;
  std::vector<GroupMemory> views_;
  std::vector<uint64_t> seen_[kWhich];
  Pointers pointers_;
};

}  // namespace megatron::ucx
