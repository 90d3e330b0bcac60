// The feed: which samples a step gets, what is read ahead, and what a dataset's failure becomes.
#include "train/data_feed.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "fake_dataset.hpp"

namespace megatron::train {
namespace {

constexpr int64_t kMicroBatch = 2;
constexpr int64_t kMicroBatches = 3;
constexpr int64_t kStep = kMicroBatch * kMicroBatches;
constexpr BatchShare kShare{kMicroBatch, kMicroBatches, 0, kStep};

// Two fields: ids [batch, 3] and a weight [batch].
std::vector<Field> inputs() {
  std::vector<Field> out(2);
  out[0].name = "ids";
  out[0].type = {DType::i32, {{kMicroBatch, "batch"}, {3, "seq"}}};
  out[1].name = "weight";
  out[1].type = {DType::f32, {{kMicroBatch, "batch"}}};
  return out;
}

Status write_sample(int64_t index, void* const* buffers) {
  for (int i = 0; i < 3; ++i)
    static_cast<int32_t*>(buffers[0])[i] = static_cast<int32_t>(10 * index + i);
  *static_cast<float*>(buffers[1]) = static_cast<float>(index) / 2;
  return {};
}

// The dataset's sample numbers of a step, from the ids; checks every field.
std::vector<int64_t> samples(const std::vector<MicroBatch>& batches) {
  std::vector<int64_t> out;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.field("labels"), nullptr);
    for (int64_t row = 0; row < kMicroBatch; ++row) {
      const auto* ids = static_cast<const int32_t*>(batch.field("ids")) + 3 * row;
      const float weight = static_cast<const float*>(batch.field("weight"))[row];
      out.push_back(ids[0] / 10);
      EXPECT_EQ(ids[2], ids[0] + 2);
      EXPECT_EQ(weight, static_cast<float>(out.back()) / 2);
    }
  }
  return out;
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

// Waits for what the feed's thread does on its own.
template <class Condition>
bool soon(Condition&& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

TEST(DataFeed, GivesSamplesInOrder) {
  test::FakeDataset dataset(5 * kStep, write_sample);
  DataFeed feed(dataset.view(), inputs(), kShare);
  for (int64_t step = 0; step < 5; ++step) {
    const auto batches = feed.next(step * kStep);
    ASSERT_TRUE(batches.ok()) << batches.status().message();
    ASSERT_EQ((*batches)->size(), static_cast<size_t>(kMicroBatches));
    EXPECT_EQ(samples(**batches), range(step * kStep, (step + 1) * kStep));
  }
  EXPECT_EQ(dataset.reads(), range(0, 5 * kStep)) << "each sample once, and none beyond the end";
}

// The second of two data ranks: its half of each global batch, read ahead by whole batches.
TEST(DataFeed, GivesARankItsShare) {
  test::FakeDataset dataset(4 * 2 * kStep, write_sample);
  DataFeed feed(dataset.view(), inputs(), {kMicroBatch, kMicroBatches, kStep, 2 * kStep});
  for (int64_t step = 0; step < 4; ++step) {
    const auto batches = feed.next(step * 2 * kStep);
    ASSERT_TRUE(batches.ok()) << batches.status().message();
    EXPECT_EQ(samples(**batches), range((2 * step + 1) * kStep, (2 * step + 2) * kStep));
  }
}

TEST(DataFeed, ReadsTheNextStepAhead) {
  test::FakeDataset dataset(10 * kStep, write_sample);
  DataFeed feed(dataset.view(), inputs(), kShare);
  EXPECT_TRUE(dataset.reads().empty()) << "nothing is read before the first step is known";
  const auto first = feed.next(0);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(soon([&] { return dataset.reads().size() == 2 * kStep; })) << "no prefetch";
  EXPECT_EQ(samples(**first), range(0, kStep)) << "the prefetch wrote into what the caller holds";
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(dataset.reads().size(), static_cast<size_t>(2 * kStep)) << "only one step ahead";
}

// Evaluation starts over, and a resumed run starts anywhere: what was read ahead is thrown away.
TEST(DataFeed, GoesWhereItIsAskedTo) {
  test::FakeDataset dataset(10 * kStep, write_sample);
  DataFeed feed(dataset.view(), inputs(), kShare);
  for (const int64_t step : {7, 8, 0, 1, 0}) {
    const auto batches = feed.next(step * kStep);
    ASSERT_TRUE(batches.ok());
    EXPECT_EQ(samples(**batches), range(step * kStep, (step + 1) * kStep));
  }
}

TEST(DataFeed, AnErrorNamesTheSample) {
  test::FakeDataset dataset(10 * kStep, [](int64_t index, void* const* buffers) {
    if (index == 8) return Status::error(Code::data_loss, "the file ends in the middle of a token");
    return write_sample(index, buffers);
  });
  DataFeed feed(dataset.view(), inputs(), kShare);
  ASSERT_TRUE(feed.next(0).ok());
  for (int times = 0; times < 2; ++times) {
    const auto batches = feed.next(kStep);
    ASSERT_FALSE(batches.ok());
    EXPECT_EQ(batches.status().code(), Code::data_loss);
    EXPECT_EQ(
        batches.status().message(),
        "the file ends in the middle of a token\n  while reading sample 8 of the train split");
  }
  const auto other = feed.next(2 * kStep);
  ASSERT_TRUE(other.ok()) << "the feed goes on after an error";
  EXPECT_EQ(samples(**other), range(2 * kStep, 3 * kStep));
}

// Sample 3 ends in 32.
TEST(DataFeed, AnIdThatTheModelDoesNotHaveIsAnError) {
  test::FakeDataset dataset(10 * kStep, write_sample);
  auto bounded = inputs();
  bounded[0].ids = graph::Dim{32, "vocab"};
  DatasetView view = dataset.view();
  view.split = "valid";
  DataFeed feed(view, bounded, kShare);
  const auto batches = feed.next(0);
  ASSERT_FALSE(batches.ok());
  EXPECT_EQ(batches.status().code(), Code::out_of_range);
  EXPECT_EQ(batches.status().message(),
            "field 'ids' has 32 at position 2\n"
            "  the model's dimension 'vocab' has the indices 0 to 31\n"
            "  fix: give data and model the same tokenizer, or enlarge 'vocab' in the model\n"
            "  while reading sample 3 of the valid split");
}

TEST(DataFeed, TheEndOfTheDatasetIsAnError) {
  test::FakeDataset dataset(kStep + 1, write_sample);
  DataFeed feed(dataset.view(), inputs(), kShare);
  ASSERT_TRUE(feed.next(0).ok());
  const auto batches = feed.next(kStep);
  ASSERT_FALSE(batches.ok());
  EXPECT_EQ(batches.status().message(),
            "samples 6 to 11 were asked for\n"
            "  the dataset has 7\n"
            "  fix: lower train.train_iters, or give the dataset more data");
  EXPECT_EQ(dataset.reads(), range(0, kStep)) << "the dataset is not asked beyond its end";
}

TEST(DataFeed, CountsTheTimeItWaits) {
  test::FakeDataset dataset(10 * kStep, [](int64_t index, void* const* buffers) {
    if (index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return write_sample(index, buffers);
  });
  DataFeed feed(dataset.view(), inputs(), kShare);
  ASSERT_TRUE(feed.next(0).ok());
  EXPECT_GE(feed.waited_seconds(), 0.03);
}

TEST(DataFeed, StopsWhileItReads) {
  std::atomic<bool> reading = false;
  test::FakeDataset dataset(10 * kStep, [&](int64_t index, void* const* buffers) {
    reading = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return write_sample(index, buffers);
  });
  {
    DataFeed feed(dataset.view(), inputs(), kShare);
    ASSERT_TRUE(feed.next(0).ok());
  }  // while the second step is being read
  EXPECT_TRUE(reading);
}

}  // namespace
}  // namespace megatron::train
