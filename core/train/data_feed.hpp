// Batches for the train loop: the samples of a step's micro-batches, read ahead by a thread of its
// own so that a step never waits for data that could have been read during the one before.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "megatron/abi/dataset.h"
#include "megatron/status.hpp"
#include "train/field.hpp"

namespace megatron::train {

// A dataset plugin's instance; owned by whoever made it.
struct DatasetView {
  const mgt_dataset* table = nullptr;
  void* self = nullptr;
  std::string_view split = "train";
  int64_t size() const { return table->size(self); }
};

// The fields of one micro-batch, each [micro_batch_size, sample...].
class MicroBatch {
 public:
  const void* field(std::string_view name) const;

 private:
  friend class DataFeed;
  std::map<std::string, std::vector<char>, std::less<>> fields_;
};

// Which samples of each global batch a rank computes.
struct BatchShare {
  int64_t micro_batch_size = 1;
  int64_t micro_batches = 1;
  int64_t first = 0;   // sample, within the global batch
  int64_t global = 1;  // samples of the global batch
};

class DataFeed {
 public:
  // `inputs`: what the programs read, [batch, sample...]. A sample whose ids the model does not
  // have is an error like one that cannot be read: no program sees it.
  DataFeed(DatasetView dataset, const std::vector<Field>& inputs, const BatchShare& share);
  DataFeed(const DataFeed&) = delete;
  DataFeed& operator=(const DataFeed&) = delete;
  ~DataFeed();

  // This rank's micro-batches of the global batch that begins with sample `first_sample`. Starts to
  // read those of the next one. Valid until the next call.
  Result<const std::vector<MicroBatch>*> next(int64_t first_sample);
  // Time that `next` spent waiting so far.
  double waited_seconds() const { return waited_seconds_; }

 private:
  enum class State : uint8_t { idle, requested, reading, ready };
  struct Slot {
    std::vector<MicroBatch> batches;
    int64_t first_sample = -1;
    Status status;
    State state = State::idle;
  };
  void read_loop();
  Status read(Slot& slot);
  Status read_sample(int64_t sample, const std::vector<void*>& buffers) const;

  DatasetView dataset_;
  std::vector<Field> inputs_;
  BatchShare share_;
  void request(Slot& slot, int64_t first_sample);
  Slot& ahead() { return slots_[1 - current_]; }

  Slot slots_[2];
  int current_ = 0;  // the slot that the caller holds; the thread fills the other
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  double waited_seconds_ = 0;
  std::thread thread_;
};

}  // namespace megatron::train
