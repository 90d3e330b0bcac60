// A dataset as a plugin would give it, with what a test wants to happen at a sample.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "train/data_feed.hpp"

namespace megatron::test {

class FakeDataset {
 public:
  // `write` fills the buffers of a sample, in the order of the fields; called by the feed's thread.
  FakeDataset(int64_t size, std::function<Status(int64_t index, void* const* buffers)> write)
      : size_(size), write_(std::move(write)) {
    MGT_INIT(&table_);
    table_.size = [](const void* self) { return static_cast<const FakeDataset*>(self)->size_; };
    table_.read = [](const void* self, int64_t index, void* const* buffers) {
      return guarded([&]() -> Status {
        auto* dataset = static_cast<FakeDataset*>(const_cast<void*>(self));
        {
          const std::lock_guard lock(dataset->mutex_);
          dataset->reads_.push_back(index);
        }
        return dataset->write_(index, buffers);
      });
    };
  }
  FakeDataset(const FakeDataset&) = delete;
  FakeDataset& operator=(const FakeDataset&) = delete;

  train::DatasetView view() { return {&table_, this}; }
  std::vector<int64_t> reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  int64_t size_;
  std::function<Status(int64_t, void* const*)> write_;
  mgt_dataset table_;
  std::mutex mutex_;
  std::vector<int64_t> reads_;
};

}  // namespace megatron::test
