// The host of a test that does not train: one thread, log lines to stderr.
#pragma once

#include <iostream>
#include <mutex>

#include "megatron/status.hpp"
#include "plugin/host_table.hpp"

namespace megatron::test {

class SerialServices final : public plugin::HostServices {
 public:
  void log(std::string_view plugin, mgt_log_level, mgt_str message) override {
    const std::lock_guard lock(mutex_);
    std::cerr << text("[", plugin, "] ", from_abi(message), "\n");
  }
  uint32_t worker_count() override { return 1; }
  void parallel_for(int64_t tasks, mgt_task_fn fn, void* arg) override {
    for (int64_t task = 0; task < tasks; ++task) fn(arg, task, 0);
  }

 private:
  std::mutex mutex_;
};

}  // namespace megatron::test
