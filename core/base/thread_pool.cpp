#include "base/thread_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

namespace megatron {
namespace {

bool& inside_task() {
  static thread_local bool inside = false;
  return inside;
}

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

ThreadPool::ThreadPool(const ThreadPoolOptions& options)
    : cpus_(options.cpus.empty() ? usable_cpus() : options.cpus),
      workers_(options.workers == 0 ? worker_count(cpus_.size()) : options.workers),
      pin_(options.pin && workers_ <= cpus_.size()),
      // A spinning thread would take the CPU from one that has work.
      spin_(workers_ <= cpus_.size() ? options.spin : std::chrono::nanoseconds(0)) {}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(const ThreadPoolOptions& options) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(options));
  MGT_RETURN_IF_ERROR(pool->start());
  return pool;
}

Status ThreadPool::start() {
  // Signals are for the thread that handles them, never for a worker in the middle of a kernel.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    threads_.reserve(workers_ - 1);
    for (uint32_t worker = 1; worker < workers_; ++worker)
      threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& e) {
    status = Status::error(
        Code::resource_exhausted,
        text("cannot start ", workers_, " workers (", threads_.size() + 1, " started)"),
        text("the system says: ", e.code().message()),
        "ask for fewer workers, or raise the limit on processes (ulimit -u, pids.max)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Once create() returns, the workers are named and pinned and allocate nothing more.
  const auto count = static_cast<uint32_t>(threads_.size());
  for (uint32_t ready = ready_; ready != count; ready = ready_) ready_.wait(ready);
  return status;
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  loop_.fetch_add(1, std::memory_order_release);
  loop_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::parallel_for(int64_t tasks, Body body) {
  MGT_CHECK(!inside_task(), "parallel_for was called from inside a task");
  if (tasks <= 0) return;
  const std::lock_guard lock(caller_);
  // The caller may have woken on another worker's CPU. Its mask stays wide: whatever thread it
  // starts later (a library's, a plugin's) must not inherit a single CPU.
  if (pin_ && workers_ > 1 && current_cpu() != cpus_[0].id) move_thread(cpus_[0].id);

  body_ = &body;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  if (workers_ == 1 || tasks == 1) return run_tasks(0);

  state_.store(kOpen, std::memory_order_release);
  loop_.fetch_add(1, std::memory_order_release);
  loop_.notify_all();
  run_tasks(0);
  // All tasks are claimed. Late workers find the door shut, so that nobody waits for a worker whose
  // CPU is taken by another process; those inside finish their last task.
  uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (state != 0) {
    await_change(state_, state);
    state = state_.load(std::memory_order_acquire);
  }
}

bool ThreadPool::enter() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                     std::memory_order_relaxed))
      return true;
  }
  return false;
}

void ThreadPool::work(uint32_t worker) {
  pthread_setname_np(pthread_self(), text("mgt-worker-", worker).substr(0, 15).c_str());
  // Without pinning: the whole set, whatever the creating thread's mask had become.
  static_cast<void>(restrict_thread(pin_ ? std::span<const Cpu>(&cpus_[worker], 1) : cpus_));
  ready_.fetch_add(1);
  ready_.notify_one();
  uint32_t seen = 0;
  while (true) {
    await_change(loop_, seen);
    seen = loop_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!enter()) continue;
    run_tasks(worker);
    // 1 before = the last one inside, door shut: the caller is waiting.
    if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_all();
  }
}

// noexcept: a body that throws is a broken invariant, and ends the process here.
void ThreadPool::run_tasks(uint32_t worker) noexcept {
  inside_task() = true;
  const Body& body = *body_;
  const int64_t tasks = tasks_;
  for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks;)
    body(task, worker);
  inside_task() = false;
}

void ThreadPool::await_change(const std::atomic<uint32_t>& word, uint32_t old) const {
  if (spin_.count() > 0) {
    const auto deadline = std::chrono::steady_clock::now() + spin_;
    do {
      for (int i = 0; i < 16; ++i) {
        if (word.load(std::memory_order_acquire) != old) return;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < deadline);
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace megatron
