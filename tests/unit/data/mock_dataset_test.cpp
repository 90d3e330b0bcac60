// The synthetic dataset: the same numbers every time, and the pattern that makes it learnable.
#include "plugins/datasets/mock/mock_dataset.hpp"

#include <gmock/gmock.h>

#include <set>

#include "plugins/tokenizers/byte/byte_tokenizer.hpp"
#include "unit/data/support.hpp"

namespace megatron::mock {
namespace {

using Ids = std::vector<int32_t>;

MockDataset make(const std::map<std::string, std::string>& given, std::string split = "train",
                 uint64_t seed = 1, int64_t num_samples = 0) {
  const test::TestConfig config(kOptions, given);
  return MockDataset(config, {Host(),
                              std::move(split),
                              num_samples,
                              seed,
                              "",
                              std::nullopt,
                              {{"tokens", DType::i32, {16}}, {"labels", DType::i32, {16}}}});
}

std::pair<Ids, Ids> read(const MockDataset& data, int64_t index) {
  Ids tokens(16), labels(16);
  void* buffers[] = {tokens.data(), labels.data()};
  data.read(index, buffers);
  return {tokens, labels};
}

TEST(MockDataset, SamplesAreProgressions) {
  const auto data = make({{"vocab_size", "50"}});
  EXPECT_EQ(data.size(), 1024);
  std::set<int> strides, starts;
  for (int64_t i = 0; i < 200; ++i) {
    const auto [tokens, labels] = read(data, i);
    const int stride = (tokens[1] - tokens[0] + 50) % 50;
    strides.insert(stride);
    starts.insert(tokens[0]);
    for (size_t t = 0; t < 16; ++t) {
      ASSERT_EQ(labels[t], (tokens[t] + stride) % 50);
      ASSERT_TRUE(tokens[t] >= 0 && tokens[t] < 50);
      if (t > 0) {
        ASSERT_EQ(tokens[t], labels[t - 1]);
      }
    }
  }
  EXPECT_THAT(strides, testing::ElementsAre(1, 2, 3, 4));
  EXPECT_GT(starts.size(), 40u);
}

TEST(MockDataset, DependsOnSeedSplitAndIndexOnly) {
  const auto a = make({{"vocab_size", "50000"}}),
             b = make({{"vocab_size", "50000"}}, "train", 1, 7);
  EXPECT_EQ(b.size(), 7);
  EXPECT_EQ(read(a, 3), read(b, 3));
  EXPECT_NE(read(a, 3), read(a, 4));
  EXPECT_NE(read(a, 3), read(make({{"vocab_size", "50000"}}, "valid"), 3));
  EXPECT_NE(read(a, 3), read(make({{"vocab_size", "50000"}}, "train", 2), 3));
}

TEST(MockDataset, NoiseReplacesItsShare) {
  const auto data = make({{"vocab_size", "1000"}, {"strides", "1"}, {"noise", "0.25"}});
  int broken = 0, total = 0;
  for (int64_t i = 0; i < 500; ++i) {
    const auto [tokens, labels] = read(data, i);
    for (size_t t = 0; t < 16; ++t, ++total) broken += labels[t] != (tokens[t] + 1) % 1000;
  }
  // A pair is whole when neither was replaced: 1 - 0.75^2 = 0.4375.
  EXPECT_NEAR(static_cast<double>(broken) / total, 0.4375, 0.02);
}

TEST(MockDataset, Errors) {
  EXPECT_EQ(test::thrown([] { make({}); }),
            "dataset 'mock' does not know how many token ids there are\n  vocab_size is 0 and the "
            "experiment has no tokenizer\n  fix: set vocab_size, or name a tokenizer");
  const auto data = make({{"vocab_size", "5"}, {"num_samples", "2"}});
  EXPECT_EQ(test::thrown([&] { read(data, 2); }),
            "sample 2 does not exist\n  the dataset has 2\n  fix: ask for one below that");
}

}  // namespace
}  // namespace megatron::mock
