// Choosing tokens: the limits that are exact, and the frequencies that must come out.
#include "train/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace megatron::train {
namespace {

const std::vector<float> kLogits = {0.0F, 2.0F, 1.0F, 2.0F, -1.0F};

std::map<int32_t, int> draw(const std::vector<float>& logits, const SamplingOptions& options,
                            int n) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sample_token(logits, options, i)];
  return counts;
}

TEST(Sampling, GreedyTakesTheFirstOfTheLargest) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0}, 7), 1);
  EXPECT_EQ(sample_token(kLogits, {.top_k = 1}, 7), 1);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0, .top_k = 3, .top_p = 0.9}, 7), 1);
}

TEST(Sampling, TopKLeavesTheRestOut) {
  const auto counts = draw(kLogits, {.top_k = 3}, 2000);
  EXPECT_EQ(counts.size(), 3U);
  EXPECT_FALSE(counts.contains(0));
  EXPECT_FALSE(counts.contains(4));
  EXPECT_EQ(draw(kLogits, {.top_k = 100}, 2000).size(), 5U);
}

TEST(Sampling, TopPTakesTheFewestThatReachIt) {
  // Probabilities 0.05, 0.39, 0.14, 0.39, 0.02.
  EXPECT_EQ(draw(kLogits, {.top_p = 0.3}, 500), (std::map<int32_t, int>{{1, 500}}));
  EXPECT_EQ(draw(kLogits, {.top_p = 0.5}, 2000).size(), 2U);
  EXPECT_EQ(draw(kLogits, {.top_p = 0.8}, 2000).size(), 3U);
  EXPECT_EQ(draw(kLogits, {.top_p = 1e-9}, 500), (std::map<int32_t, int>{{1, 500}}));
  EXPECT_EQ(draw(kLogits, {.top_p = 1.0}, 5000).size(), 5U);
  // Applied to what top-k left: 0.74, 0.26 of tokens 0 and 1.
  EXPECT_EQ(draw({3, 2, 0}, {.top_k = 2, .top_p = 0.73}, 500), (std::map<int32_t, int>{{0, 500}}));
}

// Frequencies within four standard deviations of softmax(logits / temperature).
class SamplingFrequencies : public testing::TestWithParam<double> {};

TEST_P(SamplingFrequencies, FollowTheSoftmax) {
  constexpr int kDraws = 20000;
  const auto counts = draw(kLogits, {.temperature = GetParam(), .seed = 99}, kDraws);
  double total = 0;
  for (const float x : kLogits) total += std::exp(static_cast<double>(x) / GetParam());
  for (size_t id = 0; id < kLogits.size(); ++id) {
    const double p = std::exp(static_cast<double>(kLogits[id]) / GetParam()) / total;
    const auto it = counts.find(static_cast<int32_t>(id));
    EXPECT_NEAR(it == counts.end() ? 0 : it->second, kDraws * p,
                4 * std::sqrt(kDraws * p * (1 - p)) + 1)
        << id;
  }
}
INSTANTIATE_TEST_SUITE_P(Temperatures, SamplingFrequencies, testing::Values(0.5, 1.0, 3.0));

TEST(Sampling, TheSameSeedAndPositionDrawAlike) {
  bool other_seed = false;
  bool other_position = false;
  for (int64_t position = 0; position < 50; ++position) {
    const int32_t token = sample_token(kLogits, {.seed = 5}, position);
    EXPECT_EQ(sample_token(kLogits, {.seed = 5}, position), token);
    other_seed |= sample_token(kLogits, {.seed = 6}, position) != token;
    other_position |= sample_token(kLogits, {.seed = 5}, position + 50) != token;
  }
  EXPECT_TRUE(other_seed);
  EXPECT_TRUE(other_position);
}

// Large logits overflow exp unless the largest is taken off first.
TEST(Sampling, LargeLogitsDoNotOverflow) {
  const auto counts = draw({1000.0F, 1000.0F, -1000.0F}, {}, 1000);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_GT(counts.at(0), 400);
}

}  // namespace
}  // namespace megatron::train
