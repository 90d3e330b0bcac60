// Drives what is under way: by the thread that waits, or else by a progress thread. A waiting
// thread spins for a bounded time and then sleeps until a peer rings, the network has something, a
// peer's process ends, or a deadline passes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "local_peers.hpp"
#include "shared_memory.hpp"

namespace megatron::ucx {

class Network;

// What can be driven: a group.
class Work {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Work() = default;
  // Never waits. True when something moved.
  virtual bool progress() = 0;
  virtual bool pending() const = 0;
  // Called now and then while something is pending: deadlines, news of other ranks.
  virtual void inspect(Clock::time_point now) = 0;
  virtual Clock::time_point next_deadline() const = 0;
  // The process of this rank is gone. `orderly`: it destroyed its communicator first.
  virtual void peer_gone(uint32_t rank, bool orderly) = 0;
  virtual void abort(const std::string& reason) = 0;
};

class Engine {
 public:
  struct Options {
    std::chrono::microseconds spin;
    bool oversubscribed;  // more local ranks than processors: spinning would keep a peer from
                          // running
  };
  // `peers` are connected; exchanges the doorbells with them. `network` may be null.
  static Status create(Options options, const std::vector<LocalAddress>& ranks, uint32_t self,
                       LocalPeers& peers, LocalPeers::Deadline deadline, Network* network,
                       std::unique_ptr<Engine>& out);
  ~Engine() { stop(); }

  // The progress thread; what the network calls back must be there from start() to stop().
  void start();
  void stop();

  void add(Work* work);
  void remove(Work* work);

  // Runs `body` while nothing is driven.
  template <class Body>
  auto locked(Body&& body) {
    const std::unique_lock lock = acquire();
    return body();
  }
  // With the lock held, after something was started: the progress thread will look at it, if nobody
  // waits for it soon.
  void started();
  // Drives everything until `done`.
  void wait(const std::atomic<bool>& done);
  // Wakes a local rank that sleeps; after publishing something in shared memory.
  void ring(uint32_t peer);
  void abort(std::string reason);
  bool oversubscribed() const { return options_.oversubscribed; }
  // With the lock held: the network lost a rank of another host.
  void remote_gone(uint32_t rank, bool orderly) {
    for (Work* work : works_) work->peer_gone(rank, orderly);
  }

 private:
  // Shared with the other ranks: how many threads of this rank sleep.
  struct Sleepers {
    alignas(64) std::atomic<uint32_t> count;
  };
  struct Peer {
    SharedMemory memory;
    FileDescriptor bell;
    bool gone = false;
    Sleepers* sleepers() const { return reinterpret_cast<Sleepers*>(memory.data()); }
  };
  // Makes a thread that spins with the lock held let go of it.
  class Claim {
   public:
    explicit Claim(Engine& engine) : engine_(engine) {
      engine_.claims_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Claim() { engine_.claims_.fetch_sub(1, std::memory_order_relaxed); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    Engine& engine_;
  };

  std::unique_lock<std::mutex> acquire() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) {
      const Claim claim(*this);
      lock.lock();
    }
    return lock;
  }

  explicit Engine(Options options) : options_(options) {}
  bool progress();
  bool pending() const;
  void inspect();
  // Sleeps unless something moved meanwhile.
  void sleep(std::unique_lock<std::mutex>& lock);
  void peer_hung_up(uint32_t peer);
  void give_way(std::unique_lock<std::mutex>& lock);
  void run();            // the progress thread
  void drive_pending();  // its work
  void nap(int timeout_ms);

  Options options_;
  uint32_t self_ = 0;
  std::vector<LocalAddress> ranks_;
  LocalPeers* local_ = nullptr;
  Network* network_ = nullptr;
  std::vector<Peer> peers_;
  FileDescriptor events_;  // epoll: bell, hang-ups, network
  FileDescriptor wake_;    // eventfd: for the progress thread alone

  std::mutex mutex_;
  std::vector<Work*> works_;
  std::atomic<uint32_t> claims_{0};
  std::atomic<uint32_t> waiters_{0};
  std::atomic<uint64_t> starts_{0}, waits_{0};
  std::atomic<bool> stop_{false};
  // The progress thread sleeps without a time limit; only then does started() pay for waking it.
  std::atomic<bool> dormant_{false};
  std::mutex abort_mutex_;
  std::string abort_reason_;
  std::atomic<bool> aborted_{false};
  std::thread thread_;
};

}  // namespace megatron::ucx
