// A host table with a thread pool of its own: as many workers as a test asks for.
#pragma once

#include <memory>

#include "base/thread_pool.hpp"
#include "megatron/host.hpp"

namespace megatron::cpu::testing {

class PoolHost {
 public:
  explicit PoolHost(uint32_t workers)
      : pool_(value_or_throw(ThreadPool::create({.workers = workers, .pin = false}))) {
    MGT_INIT(&table_);
    table_.context = this;
    table_.log = [](void*, mgt_log_level, mgt_str) {};
    table_.worker_count = [](void* self) { return pool(self).workers(); };
    table_.parallel_for = [](void* self, int64_t tasks, mgt_task_fn fn, void* arg) {
      pool(self).parallel_for(tasks, [&](int64_t task, uint32_t worker) { fn(arg, task, worker); });
    };
    table_.get_extension = [](void*, mgt_str) -> const void* { return nullptr; };
  }
  PoolHost(const PoolHost&) = delete;
  PoolHost& operator=(const PoolHost&) = delete;

  Host host() const { return Host(&table_); }

 private:
  static ThreadPool& pool(void* self) { return *static_cast<PoolHost*>(self)->pool_; }

  std::unique_ptr<ThreadPool> pool_;
  mgt_host table_;
};

}  // namespace megatron::cpu::testing
