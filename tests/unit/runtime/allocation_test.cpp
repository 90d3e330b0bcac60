// The threads that run compiled programs allocate nothing: a step of a tiny GPT under a counting
// malloc.
#include <gtest/gtest.h>

#include "unit/base/allocation_count.hpp"
#include "unit/train/tiny_gpt.hpp"

namespace megatron {
namespace {

class Allocations : public testing::TestWithParam<std::string> {};

TEST_P(Allocations, NoneInAStep) {
  const auto before = allocation_count();
  test::TinyGpt gpt(GetParam());
  const auto engine = gpt.engine();
  if (allocation_count() == before) GTEST_SKIP() << "a sanitizer owns malloc";
  const test::TinyBatch batch;
  const auto feed = batch.feed();
  std::vector<train::LossValue> losses;
  const auto step = [&](uint64_t iteration) {
    ASSERT_TRUE(engine->forward_backward(feed, iteration, losses).ok());
    ASSERT_TRUE(engine->reduce_gradients().ok());
    ASSERT_TRUE(engine->update(1.0, 1e-3, 0.1, static_cast<int64_t>(iteration)).ok());
  };
  step(1);  // buffers of the caller and of kernels grow once
  const auto start = allocation_count();
  for (uint64_t iteration = 2; iteration < 5; ++iteration) step(iteration);
  EXPECT_EQ(allocation_count() - start, 0);
}

INSTANTIATE_TEST_SUITE_P(Implementations, Allocations, testing::Values("auto", "reference"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace megatron
