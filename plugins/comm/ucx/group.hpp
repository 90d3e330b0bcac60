// A group of ranks: its units of operations under way, its failure, its reports.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "megatron/comm.hpp"
#include "shm_collective.hpp"
#include "shm_link.hpp"
#include "team.hpp"

namespace megatron::ucx {

// Operations that were started together; shared by the group and the caller's request.
struct Unit {
  std::atomic<bool> done{false};
  size_t open = 0;  // operations that are not complete
  Status status;
};

class Group final : public CommGroup, private Work {
 public:
  struct Settings {
    std::string name;
    std::vector<uint32_t> ranks;  // of the world
    uint32_t self;                // position of this rank
    std::chrono::milliseconds timeout;
  };
  Group(Engine& engine, const Segments& segments, Settings settings, std::vector<Team::Member> local);
  ~Group() override;

  std::unique_ptr<CommRequest> start(std::span<const mgt_collective> operations) override;

 private:
  struct Collective {
    comm::Operation operation;
    std::shared_ptr<Unit> unit;
    std::unique_ptr<ShmCollective> run;
  };
  struct Transfer {
    comm::Operation operation;
    std::shared_ptr<Unit> unit;
    Message message;
  };

  // Work
  bool progress() override;
  bool pending() const override { return !collectives_.empty() || !transfers_.empty(); }
  void inspect(Clock::time_point now) override;
  Clock::time_point next_deadline() const override;
  void peer_gone(uint32_t rank, bool orderly) override;
  void abort(const std::string& reason) override;

  void enqueue(comm::Operation operation, const std::shared_ptr<Unit>& unit);
  Result<bool> step_collectives();
  Result<bool> step_transfers();
  void complete(Unit& unit);
  // Ends everything under way; the group is unusable from now on.
  void fail(Status status, bool tell_others);
  Status gone_report(const comm::Operation& operation) const;
  void expire(const comm::Operation& operation, std::vector<uint32_t> arrived,
              std::vector<uint32_t> missing);

  Engine& engine_;
  Settings settings_;
  Team team_;
  uint64_t sequence_ = 0;
  std::deque<std::unique_ptr<Collective>> collectives_;
  size_t posted_ = 0;  // of collectives_, from the front: announced
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::map<uint32_t, ShmSender> senders_;      // by member
  std::map<uint32_t, ShmReceiver> receivers_;  // by member
  std::vector<std::pair<uint32_t, bool>> gone_;  // members (by rank) whose process ended; orderly
  Status failure_;
};

}  // namespace megatron::ucx
