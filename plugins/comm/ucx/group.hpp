// A group of ranks: its units of operations under way, its failure, its reports.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.hpp"
#include "megatron/comm.hpp"
#include "messenger.hpp"
#include "shm_collective.hpp"
#include "spread_collective.hpp"
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
    uint32_t serial;  // the same on all members
    HostMap hosts;
  };
  // `network` is null, or not used, when all members share a host.
  // It enters itself in `open` while it lives.
  Group(Engine& engine, const Segments& segments, Network* network, std::vector<Group*>& open,
        Settings settings, std::vector<Team::Member> local);
  ~Group() override;

  std::unique_ptr<CommRequest> start(std::span<const mgt_collective> operations) override;
  uint32_t serial() const { return settings_.serial; }
  void receive(const Control& control);  // of another host's member

 private:
  // An operation under way. Kept when it is complete: a small one must not pay for memory.
  struct Item {
    comm::Operation operation;
    std::shared_ptr<Unit> unit;
    // Of a collective:
    uint64_t sequence = 0;
    std::optional<ShmCollective> within;  // one of the two
    std::unique_ptr<SpreadCollective> spread;
    CollectiveRun* run = nullptr;
    // Of a send or recv:
    Message message;
  };

  // Work
  bool progress() override;
  bool pending() const override { return !collectives_.empty() || !transfers_.empty(); }
  void inspect(Clock::time_point now) override;
  Clock::time_point next_deadline() const override;
  void peer_gone(uint32_t rank, bool orderly) override;
  void abort(const std::string& reason) override;

  std::unique_ptr<Item> take_item();
  std::shared_ptr<Unit> take_unit();
  void retire(std::unique_ptr<Item> item);
  void enqueue(std::unique_ptr<Item> item);
  Result<bool> step_collectives();
  Result<bool> step_transfers();
  void complete(Unit& unit);
  // Ends everything under way; the group is unusable from now on.
  void fail(Status status, bool tell_others);
  Status gone_report(const comm::Operation& operation) const;
  bool spread() const { return settings_.hosts.hosts.size() > 1; }
  // A lost message: of the rank that is gone, otherwise as it is.
  Status lost(const Status& error, const comm::Operation& operation, uint32_t rank);
  void inspect_gone(Clock::time_point now);
  void expire(const Item& collective, Clock::time_point now);
  void report(const comm::Operation& operation, std::vector<uint32_t> arrived,
              std::vector<uint32_t> missing);

  Engine& engine_;
  Settings settings_;
  Team team_;
  uint64_t sequence_ = 0;
  std::deque<std::unique_ptr<Item>> collectives_;
  size_t posted_ = 0;  // of collectives_, from the front: announced
  std::vector<std::unique_ptr<Item>> transfers_;
  std::vector<std::unique_ptr<Item>> spare_;
  std::vector<std::shared_ptr<Unit>> units_;    // those that nobody else holds are free
  std::vector<std::unique_ptr<Item>> checked_;  // of the call of start() that is under way
  Network* network_;                            // null when all members share a host
  Messenger messenger_;
  SpreadContext context_;
  struct Gone {
    uint32_t rank;
    bool orderly;
    Clock::time_point since;
  };
  std::vector<Gone> gone_;
  // After a deadline: which collectives the members on other hosts have started.
  std::map<uint32_t, uint64_t> answers_;  // by rank
  Clock::time_point asked_ = {};
  std::vector<Group*>& open_;
  Status failure_;
};

}  // namespace megatron::ucx
