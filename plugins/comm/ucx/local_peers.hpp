// Unix sockets between the ranks of one host. They carry descriptors of shared memory, and their
// end tells at once that a process is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "megatron/file.hpp"

namespace megatron::ucx {

// What a rank of this host published about itself.
struct LocalAddress {
  uint32_t rank;
  int32_t process;
  std::string socket;  // abstract name
};

struct PeerMessage {
  enum Kind : uint32_t { hello = 1, doorbell, group, segment, goodbye };
  uint32_t kind;
  uint32_t serial;  // which group or segment: ranks create them in the same order
  uint64_t bytes;   // size of the memory behind the descriptor
  uint64_t hash;    // of what both sides must agree on
};

// Thread-safe once connected: the engine looks for goodbyes while the main thread exchanges memory.
class LocalPeers {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // A socket under a name that the kernel chooses; nothing appears in the file system.
  static Result<LocalPeers> listen(uint32_t rank);
  const std::string& address() const { return address_; }

  // Connects with all ranks of `peers` (ascending, this one among them).
  Status connect(const std::vector<LocalAddress>& peers, Deadline deadline);

  // By position in `peers`. No descriptor: -1.
  Status send(uint32_t peer, const PeerMessage& message, int fd);
  // Waits for the next message of this kind and serial. UNAVAILABLE: the peer is gone.
  Result<FileDescriptor> receive(uint32_t peer, const PeerMessage& expected, Deadline deadline);

  // The socket to watch for hang-up; -1 for this rank itself.
  int descriptor(uint32_t peer) const { return peers_[peer].socket.get(); }
  // After a hang-up: did the peer say goodbye?
  bool said_goodbye(uint32_t peer);
  void say_goodbye();

 private:
  struct Peer {
    LocalAddress address;
    FileDescriptor socket;
    std::deque<std::pair<PeerMessage, FileDescriptor>> inbox;  // read, but not asked for yet
    bool left = false;
  };
  // Reads one message into the inbox; NOT_FOUND: none there.
  Status read_one(Peer& peer);

  uint32_t rank_ = 0;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of the inboxes
  std::string address_;
  FileDescriptor listener_;
  std::vector<Peer> peers_;
};

}  // namespace megatron::ucx
