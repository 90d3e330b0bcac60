// Threads that turn batches of records into token ids. Results come back in the order of
// submission, whichever thread is faster.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/record_reader.hpp"
#include "megatron/tokenizer.hpp"

namespace megatron::data {

struct EncodeRules {
  std::vector<std::string> json_keys;  // empty: a record is plain text
  int64_t eod = -1;                    // appended to each document; -1: none
  bool skip_bad_records = false;       // those whose text is at fault: DATA_LOSS
  bool foreign_ids = false;            // ids beyond the tokenizer's vocabulary are taken
};

// The documents of a batch: ids back to back and the length of each, for every key.
struct EncodedBatch {
  struct Column {
    std::vector<int32_t> ids;
    std::vector<size_t> lengths;
    int64_t empty = 0;
  };
  std::vector<Column> columns;
  int64_t bad_records = 0;
  Status error;  // of the first record that failed, unless they are skipped
};

// The work of one thread on one batch.
EncodedBatch encode_batch(const Batch& batch, const EncodeRules& rules,
                          const TokenizerView& tokenizer);

class EncodePool {
 public:
  // RESOURCE_EXHAUSTED when the system refuses a thread.
  static Result<std::unique_ptr<EncodePool>> create(unsigned threads, EncodeRules rules,
                                                    TokenizerView tokenizer,
                                                    StopFlag stop = nullptr);
  ~EncodePool();  // does not wait for what was not asked for
  EncodePool(const EncodePool&) = delete;
  EncodePool& operator=(const EncodePool&) = delete;

  // All three: one thread.
  void submit(Batch batch);
  size_t in_flight() const { return jobs_.size(); }
  Result<EncodedBatch> next();  // the oldest; blocks until it is done, or CANCELLED when stopped

 private:
  struct Job {
    Batch batch;
    EncodedBatch result;
    bool done = false;
  };
  EncodePool(EncodeRules rules, TokenizerView tokenizer, StopFlag stop)
      : rules_(std::move(rules)), tokenizer_(tokenizer), stop_(stop) {}
  Status start(unsigned threads);
  void work();

  const EncodeRules rules_;
  const TokenizerView tokenizer_;
  const StopFlag stop_;
  std::deque<std::shared_ptr<Job>> jobs_;   // the submitting thread's
  std::deque<std::shared_ptr<Job>> queue_;  // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable submitted_, finished_;
  std::vector<std::thread> threads_;
};

}  // namespace megatron::data
