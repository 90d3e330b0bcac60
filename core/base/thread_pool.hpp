// The one thread budget of the process. Kernels and plugins share these workers; nobody else starts
// compute threads. Workers are pinned because a scheduler may stack threads that wake from sleep on
// one CPU for tens of milliseconds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/cpus.hpp"
#include "base/function_ref.hpp"
#include "megatron/status.hpp"

namespace megatron {

struct ThreadPoolOptions {
  uint32_t workers = 0;        // 0 = one a usable CPU, within the control group's quota
  bool pin = true;             // one CPU a worker; off when there are more workers than CPUs
  std::vector<Cpu> cpus = {};  // empty = usable_cpus()
  // How long an idle worker, and a caller waiting for the last worker, looks before it sleeps.
  std::chrono::nanoseconds spin = std::chrono::microseconds(5);
};

class ThreadPool {
 public:
  // Fails with RESOURCE_EXHAUSTED when the system grants no more threads.
  static Result<std::unique_ptr<ThreadPool>> create(const ThreadPoolOptions& options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t workers() const { return workers_; }  // including the caller
  bool pinned() const { return pin_; }

  // body(task, worker) for every task in [0, tasks), in no fixed order; returns when all are done.
  // The calling thread is worker 0; worker < workers() is unique among the threads that run at one
  // time. Never allocates. Calls from several threads run one after the other. A call from inside a
  // task is a CHECK failure; a body must not throw.
  void parallel_for(int64_t tasks, FunctionRef<void(int64_t task, uint32_t worker)> body);

 private:
  using Body = FunctionRef<void(int64_t, uint32_t)>;
  // state_: whether a loop accepts workers, and how many of them are inside it.
  static constexpr uint32_t kOpen = 1u << 31;

  explicit ThreadPool(const ThreadPoolOptions& options);
  Status start();
  void work(uint32_t worker);
  void run_tasks(uint32_t worker) noexcept;
  bool enter();
  // Returns when the word differs from `old`; spins, then sleeps.
  void await_change(const std::atomic<uint32_t>& word, uint32_t old) const;

  std::vector<Cpu> cpus_;
  uint32_t workers_;
  bool pin_;
  std::chrono::nanoseconds spin_;

  std::mutex caller_;           // held for the length of a loop
  const Body* body_ = nullptr;  // written only while no worker is inside
  int64_t tasks_ = 0;           // the same
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> ready_{0};  // workers that are set up
  // A cache line each: written at different rates by different threads.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> loop_{0};  // counts the loops; idle workers wait on it
  alignas(64) std::atomic<uint32_t> state_{0};
  std::vector<std::thread> threads_;
};

}  // namespace megatron
