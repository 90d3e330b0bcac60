#include "engine.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include <algorithm>
#include <memory>

#include "megatron/thread.hpp"
#include "network.hpp"

namespace megatron::ucx {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kBell = ~uint64_t{0}, kNetwork = kBell - 1;
// Nothing should ever be missed; this bounds what a mistake would cost.
constexpr int kLongestSleepMs = 100;
// The progress thread looks after work that nobody waits for after the short nap; in a program that
// waits right after starting, its naps grow to the long one.
constexpr int kShortNapMs = 1, kLongNapMs = 4;
constexpr int kNapsBeforeDormant = 8;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void write_event(int fd) {
  const uint64_t one = 1;
  static_cast<void>(!::write(fd, &one, sizeof one));
}
void clear_event(int fd) {
  uint64_t count;
  static_cast<void>(!::read(fd, &count, sizeof count));
}

Status watch(int epoll, int fd, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Status::error(Code::resource_exhausted, "cannot watch a connection between ranks",
                       text("the system says: ", std::strerror(errno)),
                       "raise the limit of open files (`ulimit -n`)");
}

}  // namespace

Status Engine::create(Options options, const std::vector<LocalAddress>& ranks, uint32_t self,
                      LocalPeers& peers, LocalPeers::Deadline deadline, Network* network,
                      std::unique_ptr<Engine>& out) {
  std::unique_ptr<Engine> engine(new Engine(options));
  engine->ranks_ = ranks;
  engine->self_ = self;
  engine->local_ = &peers;
  engine->network_ = network;
  engine->events_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  engine->wake_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  MGT_ASSIGN_OR_RETURN(auto memory, SharedMemory::create("megatron-comm-rank", sizeof(Sleepers),
                                                         SharedMemory::Pages::now));
  const PeerMessage of_bell{PeerMessage::doorbell, 0, 0, 0};
  const PeerMessage of_memory{PeerMessage::doorbell, 1, 0, 0};
  const auto count = static_cast<uint32_t>(ranks.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (i == self) continue;
    MGT_RETURN_IF_ERROR(peers.send(i, of_bell, bell.get()));
    MGT_RETURN_IF_ERROR(peers.send(i, of_memory, memory.descriptor()));
  }
  engine->peers_.resize(count);
  MGT_RETURN_IF_ERROR(watch(engine->events_.get(), bell.get(), EPOLLIN, kBell));
  engine->peers_[self].bell = std::move(bell);
  memory.close_descriptor();
  engine->peers_[self].memory = std::move(memory);
  for (uint32_t i = 0; i < count; ++i) {
    if (i == self) continue;
    MGT_ASSIGN_OR_RETURN(engine->peers_[i].bell, peers.receive(i, of_bell, deadline));
    MGT_ASSIGN_OR_RETURN(auto fd, peers.receive(i, of_memory, deadline));
    MGT_ASSIGN_OR_RETURN(
        engine->peers_[i].memory,
        SharedMemory::map(std::move(fd), sizeof(Sleepers), SharedMemory::Pages::now));
    engine->peers_[i].memory.close_descriptor();
    MGT_RETURN_IF_ERROR(watch(engine->events_.get(), peers.descriptor(i), EPOLLRDHUP, i));
  }
  if (network != nullptr) {
    MGT_RETURN_IF_ERROR(watch(engine->events_.get(), network->descriptor(), EPOLLIN, kNetwork));
  }
  out = std::move(engine);
  return {};
}

void Engine::start() {
  thread_ = start_thread("communication", [this] { run(); });
}

void Engine::stop() {
  stop_ = true;
  if (!thread_.joinable()) return;
  write_event(wake_.get());
  write_event(peers_[self_].bell.get());
  thread_.join();
}

void Engine::add(Work* work) {
  locked([&] { works_.push_back(work); });
}
void Engine::remove(Work* work) {
  locked([&] { std::erase(works_, work); });
}

void Engine::started() {
  starts_.store(starts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (dormant_.load(std::memory_order_relaxed) && dormant_.exchange(false)) {
    write_event(wake_.get());
  }
}

void Engine::ring(uint32_t peer) {
  auto& p = peers_[peer];
  if (peer != self_ && p.sleepers()->count.load(std::memory_order_relaxed) != 0) {
    write_event(p.bell.get());
  }
}

void Engine::abort(std::string reason) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (aborted_) return;
    abort_reason_ = std::move(reason);
    aborted_ = true;
  }
  write_event(peers_[self_].bell.get());
}

bool Engine::progress() {
  bool moved = network_ != nullptr && network_->progress();
  for (Work* work : works_) {
    if (work->pending()) moved |= work->progress();
  }
  return moved;
}

bool Engine::pending() const {
  return std::any_of(works_.begin(), works_.end(), [](const Work* w) { return w->pending(); });
}

void Engine::inspect() {
  const auto now = Clock::now();
  if (aborted_) {
    const std::lock_guard lock(abort_mutex_);
    for (Work* work : works_) work->abort(abort_reason_);
  }
  for (Work* work : works_) {
    if (work->pending()) work->inspect(now);
  }
}

void Engine::give_way(std::unique_lock<std::mutex>& lock) {
  if (claims_.load(std::memory_order_relaxed) == 0) return;
  lock.unlock();
  ::sched_yield();
  lock.lock();
}

void Engine::wait(const std::atomic<bool>& done) {
  if (done.load(std::memory_order_acquire)) return;
  waiters_.fetch_add(1);
  std::unique_lock lock = acquire();
  uint32_t idle = 0, moves = 0;
  Clock::time_point idle_since;
  while (!done.load(std::memory_order_relaxed)) {
    if (progress()) {
      idle = 0;
      // One stream that moves must not hide another one's deadline.
      if (++moves % 4096 == 0) inspect();
      give_way(lock);
      continue;
    }
    if (aborted_) {
      inspect();
      continue;
    }
    // The clock costs as much as a look at a few flags: read it seldom.
    if (++idle == 32) {
      idle_since = Clock::now();
    } else if (idle % 32 == 0 && Clock::now() - idle_since > options_.spin) {
      inspect();
      if (!done.load(std::memory_order_relaxed)) sleep(lock);
      idle = 0;
      continue;
    }
    if (options_.oversubscribed) {
      lock.unlock();
      ::sched_yield();
      lock.lock();
    } else {
      pause_briefly();
      give_way(lock);
    }
  }
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (pending()) started();
  lock.unlock();
  waiters_.fetch_sub(1);
}

void Engine::sleep(std::unique_lock<std::mutex>& lock) {
  auto& sleepers = peers_[self_].sleepers()->count;
  sleepers.fetch_add(1);
  // Pairs with the fence between a peer's publishing and its look at `sleepers`: either it sees
  // that this rank sleeps, or this rank sees what it published.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!progress() && !aborted_ && (network_ == nullptr || network_->arm())) {
    auto deadline = Clock::time_point::max();
    for (const Work* work : works_) {
      if (work->pending()) deadline = std::min(deadline, work->next_deadline());
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min(deadline - Clock::now(), Clock::duration(std::chrono::seconds(1))));
    lock.unlock();
    epoll_event events[8];
    const int n =
        ::epoll_wait(events_.get(), events, 8,
                     static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, kLongestSleepMs)));
    lock.lock();
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kBell) {
        clear_event(peers_[self_].bell.get());
      } else if (events[i].data.u64 != kNetwork) {
        peer_hung_up(static_cast<uint32_t>(events[i].data.u64));
      }
    }
    inspect();
  }
  sleepers.fetch_sub(1);
}

void Engine::peer_hung_up(uint32_t peer) {
  if (peers_[peer].gone) return;
  peers_[peer].gone = true;
  ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, local_->descriptor(peer), nullptr);
  // What it published before its end still counts.
  while (progress()) {
  }
  const bool orderly = local_->said_goodbye(peer);
  for (Work* work : works_) work->peer_gone(ranks_[peer].rank, orderly);
}

void Engine::nap(int timeout_ms) {
  // Without a time limit, answers to ranks of other hosts are all that this rank has to give.
  const bool listen = timeout_ms < 0 && network_ != nullptr;
  pollfd entries[] = {{wake_.get(), POLLIN, 0}, {listen ? network_->descriptor() : -1, POLLIN, 0}};
  for (;;) {
    if (listen) {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock.owns_lock()) return;
      while (network_->progress() || !network_->arm()) {
      }
    }
    ::poll(entries, 2, timeout_ms);
    if (entries[0].revents != 0) return clear_event(wake_.get());
    if (!listen) return;
  }
}

// States: dormant (no time limit) -> after a start: napping -> drives what was left pending ->
// napping … -> dormant. In a program that waits right after it starts, there is nothing to drive,
// and looking at the wrong moment would only disturb: work is taken up when nobody waited since the
// last look, or nothing was started.
void Engine::run() {
  ::prctl(PR_SET_NAME, "megatron-comm");
  int nap_ms = kShortNapMs, idle_naps = 0;
  uint64_t seen_starts = 0, seen_waits = 0;
  while (!stop_) {
    if (idle_naps >= kNapsBeforeDormant) {
      dormant_ = true;
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (starts_.load(std::memory_order_relaxed) == seen_starts && !stop_) nap(-1);
      dormant_ = false;
      idle_naps = 0;
      nap_ms = kShortNapMs;
    }
    nap(nap_ms);
    const uint64_t starts = starts_.load(std::memory_order_relaxed);
    const uint64_t waits = waits_.load(std::memory_order_relaxed);
    const bool quiet = starts == seen_starts, alone = waits == seen_waits;
    seen_starts = starts;
    seen_waits = waits;
    idle_naps = quiet ? idle_naps + 1 : 0;
    bool work = false;
    if (waiters_ == 0 && (quiet || alone)) {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      work = lock.owns_lock() && pending();
    }
    nap_ms = work || alone ? kShortNapMs : kLongNapMs;
    if (work) {
      drive_pending();
      idle_naps = 0;
    }
  }
}

void Engine::drive_pending() {
  std::unique_lock lock(mutex_);
  uint32_t turns = 0;
  while (!stop_ && waiters_.load(std::memory_order_relaxed) == 0 && pending()) {
    if (progress()) {
      if (++turns % 1024 == 0) inspect();
    } else {
      sleep(lock);
    }
    give_way(lock);
  }
  lock.unlock();
  // A bell that this thread answered may have been meant for one that waits now.
  if (waiters_ != 0) write_event(peers_[self_].bell.get());
}

}  // namespace megatron::ucx
