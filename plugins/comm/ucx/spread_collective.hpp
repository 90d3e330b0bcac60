// A collective of a group that spans hosts: a plan of steps, each a collective within the host, an
// exchange of messages, or a computation. Ranks with the same index on their hosts talk to each
// other, each about its slice, so that every byte crosses the network once per host.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "collective_run.hpp"
#include "common/reduce.hpp"
#include "messenger.hpp"
#include "scratch.hpp"
#include "shm_collective.hpp"

namespace megatron::ucx {

// What the collectives of such a group share.
struct SpreadContext {
  Team& team;
  const HostMap& hosts;
  Messenger& messenger;
  Scratch scratch = {};
  uint64_t local_sequence = 0;  // of collectives within the host
};

class SpreadCollective final : public CollectiveRun {
 public:
  SpreadCollective(SpreadContext& context, const comm::Operation& operation, uint64_t sequence);

  bool post() override;
  Result<bool> step() override;
  bool finished() const override { return planned_ && next_ == steps_.size(); }
  bool needs(uint32_t rank) const override;
  // The rank (of the world) whose message was lost, after step() failed with UNAVAILABLE.
  uint32_t lost_rank() const { return lost_rank_; }

 private:
  struct Part {     // one message of an exchange
    uint32_t peer;  // position in the group
    bool receives;
    const std::byte* send;
    std::byte* recv;
    uint64_t bytes;
  };
  static Part to(uint32_t peer, const std::byte* data, uint64_t bytes) {
    return {peer, false, data, nullptr, bytes};
  }
  static Part from(uint32_t peer, std::byte* data, uint64_t bytes) {
    return {peer, true, nullptr, data, bytes};
  }
  struct Step {
    std::unique_ptr<comm::Operation> local;
    std::vector<Part> parts;
    std::function<void()> compute;
  };
  struct Range {
    uint64_t begin, end;
    uint64_t size() const { return end - begin; }
  };

  void plan();
  void plan_all_reduce();
  void plan_flat_all_reduce();
  void plan_slices(mgt_dtype dtype, std::byte* work);
  void plan_reduce_scatter();
  void plan_all_gather();
  void plan_all_to_all();
  void plan_broadcast();
  void plan_barrier();

  void add_local(mgt_collective_kind kind, mgt_dtype dtype, const std::byte* send, std::byte* recv,
                 uint64_t count, uint32_t member = 0);
  void add_exchange(std::vector<Part> parts);
  void add_compute(std::function<void()> body);
  void add_convert(mgt_dtype from, mgt_dtype to, const std::byte* source, std::byte* target,
                   uint64_t count);
  Result<bool> run_exchange(Step& step);
  static Range share(uint64_t count, uint64_t parts, uint64_t i, uint64_t size);

  SpreadContext& c_;
  const comm::Operation& o_;
  const uint64_t sequence_;
  const uint32_t n_, self_;
  const uint64_t size_;  // of an element
  bool posted_ = false, planned_ = false;
  std::vector<Step> steps_;
  size_t next_ = 0;
  uint64_t exchanges_ = 0;
  std::unique_ptr<ShmCollective> local_run_;
  std::deque<Message> messages_;
  std::vector<uint32_t> peers_;  // of messages_: positions
  uint32_t lost_rank_ = ~uint32_t{0};
};

}  // namespace megatron::ucx
