#include "data/encode_pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "data/json_record.hpp"

namespace megatron::data {
namespace {

constexpr std::chrono::milliseconds kStopInterval{100};

// Memory that is kept from record to record; one entry a key.
struct Scratch {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
};

// A tokenizer names the argument at fault, and that is the record: damaged data, as bad JSON is.
Status blame_record(const Status& status, const std::string& where) {
  const bool text_at_fault =
      status.code() == Code::invalid_argument || status.code() == Code::out_of_range;
  return Status(text_at_fault ? Code::data_loss : status.code(), std::string(status.message()))
      .context(text("encoding ", where));
}

// Tokenizers are foreign code, and training has no row for an id beyond their vocabulary.
Status check_ids(std::span<const int32_t> ids, int64_t vocab_size, const std::string& where) {
  const auto foreign =
      std::find_if(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= vocab_size; });
  if (foreign == ids.end()) return {};
  return Status::error(Code::data_loss,
                       text(where, ": the tokenizer made id ", *foreign, " of the text"),
                       text("its vocabulary has the ids 0 to ", vocab_size - 1),
                       "choose the tokenizer and the options that belong to this text; "
                       "--foreign-ids takes such ids");
}

Status encode_record(std::string_view record, const std::string& where, const EncodeRules& rules,
                     const TokenizerView& tokenizer, Scratch& scratch) {
  const bool plain = rules.json_keys.empty();
  if (!plain) MGT_RETURN_IF_ERROR(read_json_record(record, rules.json_keys, where, scratch.texts));
  try {
    for (size_t k = 0; k < scratch.ids.size(); ++k) {
      const auto document = plain ? record : std::string_view(scratch.texts[k]);
      scratch.ids[k].clear();
      if (document.empty()) continue;
      tokenizer.encode(document, scratch.ids[k]);
      if (!rules.foreign_ids)
        MGT_RETURN_IF_ERROR(check_ids(scratch.ids[k], tokenizer.vocab_size(), where));
    }
  } catch (const StatusError& e) {
    return blame_record(e.status(), where);
  }
  return {};
}

// A record counts for all keys or for none, so this comes after all were encoded.
void append(const EncodeRules& rules, const Scratch& scratch, EncodedBatch& out) {
  for (size_t k = 0; k < scratch.ids.size(); ++k) {
    const auto& ids = scratch.ids[k];
    auto& column = out.columns[k];
    if (ids.empty()) {  // nor an end of document: it would mark a border of nothing
      ++column.empty;
      continue;
    }
    column.ids.insert(column.ids.end(), ids.begin(), ids.end());
    if (rules.eod >= 0) column.ids.push_back(static_cast<int32_t>(rules.eod));
    column.lengths.push_back(ids.size() + (rules.eod >= 0 ? 1 : 0));
  }
}

}  // namespace

EncodedBatch encode_batch(const Batch& batch, const EncodeRules& rules,
                          const TokenizerView& tokenizer) {
  const size_t keys = std::max<size_t>(rules.json_keys.size(), 1);
  EncodedBatch out;
  out.columns.resize(keys);
  Scratch scratch;
  scratch.ids.resize(keys);
  for (const auto& record : batch.records) {
    const auto line = batch.text(record);
    if (!rules.json_keys.empty() && line.find_first_not_of(" \t") == std::string_view::npos)
      continue;  // a blank line between the objects
    auto status =
        encode_record(line, text(batch.path, ":", record.line), rules, tokenizer, scratch);
    if (status.ok()) {
      append(rules, scratch, out);
    } else if (rules.skip_bad_records && status.code() == Code::data_loss) {
      ++out.bad_records;
    } else {
      out.error = std::move(status);
      break;
    }
  }
  return out;
}

Result<std::unique_ptr<EncodePool>> EncodePool::create(unsigned threads, EncodeRules rules,
                                                       TokenizerView tokenizer, StopFlag stop) {
  std::unique_ptr<EncodePool> pool(new EncodePool(std::move(rules), tokenizer, stop));
  MGT_RETURN_IF_ERROR(pool->start(threads));
  return pool;
}

Status EncodePool::start(unsigned threads) {
  // Signals are for the thread that waits for input.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    threads_.reserve(threads);
    while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    status = Status::error(
        Code::resource_exhausted,
        text("cannot start ", threads, " encoding threads (", threads_.size(), " started)"),
        text("the system says: ", e.code().message()),
        "ask for fewer workers, or raise the limits on threads and memory (ulimit -u -v, "
        "pids.max)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

EncodePool::~EncodePool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void EncodePool::submit(Batch batch) {
  auto job = std::make_shared<Job>();
  job->batch = std::move(batch);
  jobs_.push_back(job);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
  }
  submitted_.notify_one();
}

Result<EncodedBatch> EncodePool::next() {
  const auto job = std::move(jobs_.front());
  jobs_.pop_front();
  std::unique_lock lock(mutex_);
  while (!finished_.wait_for(lock, kStopInterval, [&] { return job->done; }))
    MGT_RETURN_IF_ERROR(check_stop(stop_));
  return std::move(job->result);
}

void EncodePool::work() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    EncodedBatch result;
    try {
      result = encode_batch(job->batch, rules_, tokenizer_);
    } catch (const std::exception& e) {  // out of memory: a thread must not end the process
      result.error =
          Status::error(Code::resource_exhausted, text(job->batch.path, ": cannot encode a batch"),
                        e.what(), "use fewer workers, or split very long documents");
    }
    {
      const std::lock_guard lock(mutex_);
      job->result = std::move(result);
      job->done = true;
    }
    finished_.notify_all();
  }
}

}  // namespace megatron::data
