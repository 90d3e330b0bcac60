// A host table for tests and benchmarks of plugins: a pool of std::threads with a given number of
// workers, a log that is kept, and options by name.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "megatron/host.hpp"

namespace megatron::testing {

class FakeHost {
 public:
  explicit FakeHost(uint32_t workers) : workers_(workers) {
    MGT_INIT(&table_);
    table_.context = this;
    table_.log = [](void* self, mgt_log_level, mgt_str text) {
      auto* host = static_cast<FakeHost*>(self);
      const std::lock_guard lock(host->mutex_);
      host->log_ += std::string(from_abi(text)) + "\n";
    };
    table_.worker_count = [](void* self) { return static_cast<FakeHost*>(self)->workers_; };
    table_.parallel_for = [](void* self, int64_t tasks, mgt_task_fn fn, void* arg) {
      static_cast<FakeHost*>(self)->run(tasks, fn, arg);
    };
    table_.get_extension = [](void*, mgt_str) -> const void* { return nullptr; };
    for (uint32_t w = 1; w < workers; ++w) threads_.emplace_back([this, w] { serve(w); });
  }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;
  ~FakeHost() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& t : threads_) t.join();
  }

  const mgt_host* table() const { return &table_; }
  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  // Tasks are handed out one by one. The calling thread is worker 0.
  void run(int64_t tasks, mgt_task_fn fn, void* arg) {
    {
      const std::lock_guard lock(mutex_);
      fn_ = fn;
      arg_ = arg;
      tasks_ = tasks;
      next_ = 0;
      busy_ = workers_ - 1;
      ++generation_;
    }
    start_.notify_all();
    work(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
  }
  void work(uint32_t worker) {
    for (int64_t task = next_++; task < tasks_; task = next_++) fn_(arg_, task, worker);
  }
  void serve(uint32_t worker) {
    uint64_t seen = 0;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        start_.wait(lock, [&] { return stop_ || generation_ != seen; });
        if (stop_) return;
        seen = generation_;
      }
      work(worker);
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  const uint32_t workers_;
  mgt_host table_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  mgt_task_fn fn_ = nullptr;
  void* arg_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  uint32_t busy_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
  std::string log_;
};

// A plugin's section with string values only.
class FakeConfig {
 public:
  explicit FakeConfig(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {
    MGT_INIT(&table_);
    table_.context = this;
    table_.get = [](const void* self, mgt_str key, mgt_config_value* out) -> mgt_status* {
      const auto& values = static_cast<const FakeConfig*>(self)->values_;
      const auto it = values.find(from_abi(key));
      if (it == values.end()) {
        return to_abi(Status(Code::not_found, text("no option '", from_abi(key), "'")));
      }
      out->type = MGT_OPTION_STRING;
      out->s = to_abi(it->second);
      return nullptr;
    };
  }
  FakeConfig(const FakeConfig&) = delete;
  FakeConfig& operator=(const FakeConfig&) = delete;
  const mgt_config* table() const { return &table_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
  mgt_config table_;
};

}  // namespace megatron::testing
