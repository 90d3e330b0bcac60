#include "train/data_feed.hpp"

#include <chrono>

#include "megatron/thread.hpp"

namespace megatron::train {

const void* MicroBatch::field(std::string_view name) const {
  const auto it = fields_.find(name);
  return it == fields_.end() ? nullptr : it->second.data();
}

DataFeed::DataFeed(DatasetView dataset, const std::vector<Field>& inputs, const BatchShare& share)
    : dataset_(dataset), inputs_(inputs), share_(share) {
  for (auto& slot : slots_) {
    slot.batches.resize(static_cast<size_t>(share.micro_batches));
    for (auto& batch : slot.batches) {
      for (const auto& input : inputs_)
        batch.fields_[input.name].resize(static_cast<size_t>(input.type.bytes()));
    }
  }
  thread_ = start_thread("reading samples", [this] { read_loop(); });
}

DataFeed::~DataFeed() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status DataFeed::read(Slot& slot) {
  std::vector<void*> buffers(inputs_.size());
  int64_t sample = slot.first_sample + share_.first;
  for (auto& batch : slot.batches) {
    for (int64_t row = 0; row < share_.micro_batch_size; ++row, ++sample) {
      for (size_t f = 0; f < inputs_.size(); ++f) {
        auto& bytes = batch.fields_.find(inputs_[f].name)->second;
        buffers[f] =
            bytes.data() + row * (static_cast<int64_t>(bytes.size()) / share_.micro_batch_size);
      }
      if (Status status = read_sample(sample, buffers); !status.ok()) {
        return std::move(status).context(
            text("reading sample ", sample, " of the ", dataset_.split, " split"));
      }
    }
  }
  return {};
}

Status DataFeed::read_sample(int64_t sample, const std::vector<void*>& buffers) const {
  MGT_RETURN_IF_ERROR(
      from_abi(dataset_.table->read(dataset_.self, sample, buffers.data()), "the dataset plugin"));
  for (size_t f = 0; f < inputs_.size(); ++f) {
    if (!inputs_[f].ids) continue;
    const auto elements = static_cast<size_t>(inputs_[f].type.elements() / share_.micro_batch_size);
    MGT_RETURN_IF_ERROR(
        check_ids(inputs_[f], std::span(static_cast<const int32_t*>(buffers[f]), elements)));
  }
  return {};
}

void DataFeed::read_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || ahead().state == State::requested; });
    if (stop_) return;
    Slot& slot = ahead();
    slot.state = State::reading;
    lock.unlock();
    Status status = read(slot);
    lock.lock();
    slot.status = std::move(status);
    slot.state = State::ready;
    changed_.notify_all();
  }
}

void DataFeed::request(Slot& slot, int64_t first_sample) {
  slot.first_sample = first_sample;
  slot.state = State::requested;
  changed_.notify_all();
}

Result<const std::vector<MicroBatch>*> DataFeed::next(int64_t first_sample) {
  const auto start = std::chrono::steady_clock::now();
  if (const int64_t size = dataset_.size(); first_sample + share_.global > size) {
    return Status::error(
        Code::out_of_range,
        text("samples ", first_sample, " to ", first_sample + share_.global - 1, " were asked for"),
        text("the dataset has ", size), "lower train.train_iters, or give the dataset more data");
  }
  std::unique_lock lock(mutex_);
  if (ahead().first_sample != first_sample) {
    changed_.wait(lock,
                  [&] { return ahead().state == State::idle || ahead().state == State::ready; });
    request(ahead(), first_sample);
  }
  changed_.wait(lock, [&] { return ahead().state == State::ready; });
  current_ = 1 - current_;
  ahead().first_sample = -1;
  ahead().state = State::idle;
  waited_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Slot& slot = slots_[current_];
  if (!slot.status.ok()) return slot.status;
  if (first_sample + 2 * share_.global <= dataset_.size())
    request(ahead(), first_sample + share_.global);
  return &slot.batches;
}

}  // namespace megatron::train
