// Messages of one group, whichever way they go: shared memory to ranks of this host, the network to
// others.
#pragma once

#include <map>
#include <vector>

#include "host_map.hpp"
#include "message.hpp"
#include "network.hpp"
#include "shm_link.hpp"

namespace megatron::ucx {

class Messenger {
 public:
  // `ranks`: of the world, by position in the group. `network` is null when all share a host.
  Messenger(Team& team, const HostMap& hosts, Network* network, uint32_t serial,
            std::vector<uint32_t> ranks)
      : team_(team), hosts_(hosts), network_(network), serial_(serial), ranks_(std::move(ranks)) {}
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  void send(uint32_t to, Message* message) {
    if (!is_local(to)) return network_->send(serial_, ranks_[to], message);
    const uint32_t member = hosts_.index_of[to];
    auto& sender = senders_.try_emplace(member, team_, member).first->second;
    sender.push(message);
    sender.progress();
  }
  void recv(uint32_t from, Message* message) {
    if (!is_local(from)) return network_->recv(serial_, ranks_[from], message);
    const uint32_t member = hosts_.index_of[from];
    receivers_.try_emplace(member, team_, member).first->second.push(message);
  }
  // Of the links in shared memory; the network progresses by itself.
  Result<bool> progress() {
    bool moved = false;
    for (auto& [member, sender] : senders_) moved |= sender.progress();
    for (auto& [member, receiver] : receivers_) {
      MGT_ASSIGN_OR_RETURN(const bool received, receiver.progress());
      moved |= received;
    }
    return moved;
  }
  // With the engine's lock held; before the messages go.
  void forget() {
    senders_.clear();
    receivers_.clear();
    if (network_ != nullptr) network_->forget(serial_);
  }
  bool is_local(uint32_t position) const { return hosts_.host_of[position] == hosts_.own_host; }
  uint32_t rank(uint32_t position) const { return ranks_[position]; }

 private:
  Team& team_;
  const HostMap& hosts_;
  Network* network_;
  uint32_t serial_;
  std::vector<uint32_t> ranks_;
  std::map<uint32_t, ShmSender> senders_;  // by member of the team
  std::map<uint32_t, ShmReceiver> receivers_;
};

}  // namespace megatron::ucx
