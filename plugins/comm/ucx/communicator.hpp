// The communicator of a rank: meets the other ranks through the store, then creates groups and
// shared allocations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine.hpp"
#include "group.hpp"
#include "megatron/comm.hpp"
#include "network.hpp"

namespace megatron::ucx {

class UcxCommunicator final : public Communicator {
 public:
  UcxCommunicator(const Config& config, const CommContext& context);
  ~UcxCommunicator() override;

  std::unique_ptr<CommGroup> group(std::string_view name, std::span<const uint32_t> ranks) override;
  void* allocate(uint64_t bytes) override;
  void free(void* memory) noexcept override;
  void abort(std::string_view reason) noexcept override;

 private:
  LocalPeers::Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }
  void meet(const CommContext& context, const Network::Options& options);
  void dispatch(const Control& control);
  uint32_t local_position(uint32_t rank) const;  // kElsewhere: on another host

  static constexpr uint32_t kElsewhere = ~uint32_t{0};
  uint32_t rank_, world_size_;
  std::chrono::milliseconds timeout_;
  uint32_t local_self_ = 0;
  std::vector<LocalAddress> local_;
  LocalPeers peers_;
  Segments segments_;
  uint32_t groups_ = 0, allocations_ = 0;
  std::vector<std::string> identities_;  // of the host, by rank
  std::unique_ptr<Network> network_;     // null when all ranks share a host
  std::unique_ptr<Engine> engine_;
  std::vector<Group*> open_groups_;  // those that control messages are for
};

}  // namespace megatron::ucx
