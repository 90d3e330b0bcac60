// Document, sample and shuffle index against values of Megatron's own rules.
#include "plugins/datasets/megatron_gpt/index.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "plugins/datasets/megatron_gpt/split.hpp"
#include "unit/data/support.hpp"

namespace megatron::gpt {
namespace {

using testing::ElementsAre;

std::vector<int64_t> values(const Column& column) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < column.size(); ++i) out.push_back(column[i]);
  return out;
}

struct Built {
  IndexPlan plan;
  GptIndex index;
};

Built build(const std::vector<int32_t>& lengths, int64_t sequence, int64_t samples,
            uint32_t seed = 1234, bool extra = true, bool drop_last = true) {
  const Lengths view(std::as_bytes(std::span(lengths)));
  IndexRequest request{
      {0, static_cast<int64_t>(lengths.size())}, samples, sequence, extra, drop_last, seed};
  auto plan = plan_index(request, view);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return {*plan, build_index(*plan, view)};
}

const std::vector<int32_t> kLengths{5, 3, 7, 4, 6};

TEST(GptIndex, OneEpoch) {
  const auto [plan, index] = build(kLengths, 4, 0);
  EXPECT_EQ(plan.epochs, 1);
  EXPECT_THAT(values(index.documents), ElementsAre(4, 0, 1, 2, 3));
  EXPECT_THAT(values(index.start_document), ElementsAre(0, 0, 1, 2, 3, 3, 4));
  EXPECT_THAT(values(index.start_offset), ElementsAre(0, 4, 2, 1, 2, 6, 3));
  EXPECT_THAT(values(index.shuffle), ElementsAre(5, 2, 3, 1, 0, 4));
}

TEST(GptIndex, LastEpochShuffledByItself) {
  const auto [plan, index] = build(kLengths, 4, 13);
  EXPECT_EQ(plan.epochs, 3);
  EXPECT_TRUE(plan.separate_last);
  EXPECT_EQ(plan.samples, 18);
  EXPECT_THAT(values(index.documents), ElementsAre(2, 2, 4, 1, 0, 3, 4, 0, 1, 3, 0, 4, 3, 2, 1));
  EXPECT_THAT(values(index.shuffle),
              ElementsAre(7, 11, 2, 3, 1, 9, 5, 4, 0, 8, 6, 10, 17, 13, 16, 15, 12, 14));
}

TEST(GptIndex, AllEpochsShuffledTogether) {
  const auto [plan, index] = build(kLengths, 4, 18);
  EXPECT_EQ(plan.epochs, 3);
  EXPECT_FALSE(plan.separate_last);
  EXPECT_THAT(values(index.documents), ElementsAre(3, 1, 0, 2, 4, 2, 0, 2, 1, 4, 3, 4, 0, 1, 3));
  EXPECT_THAT(values(index.shuffle),
              ElementsAre(7, 10, 4, 1, 11, 8, 3, 14, 13, 12, 17, 15, 2, 6, 9, 0, 5, 16));
}

// Where row k of the sample index begins, counted in tokens of the document order.
void expect_starts_every_sequence(const std::vector<int32_t>& lengths, const IndexPlan& plan,
                                  const GptIndex& index) {
  std::vector<__int128> before{0};
  for (int64_t d = 0; d < index.documents.size(); ++d)
    before.push_back(before.back() + lengths[static_cast<size_t>(index.documents[d])]);
  for (int64_t k = 0; k <= plan.samples; ++k) {
    const auto at = before[static_cast<size_t>(index.start_document[k])] + index.start_offset[k];
    ASSERT_TRUE(at == static_cast<__int128>(k) * plan.sequence_length) << "sample " << k;
  }
}

// Known fault B12: four documents of 2^30 tokens, three epochs: positions pass 2^31 and 2^32.
TEST(GptIndex, TokenPositionsPassThirtyTwoBits) {
  const std::vector<int32_t> lengths(4, 1 << 30);
  const auto [plan, index] = build(lengths, 1 << 20, 3 * 4 * 1024 - 1);
  EXPECT_EQ(plan.epochs, 3);
  EXPECT_EQ(plan.samples, 12287);
  expect_starts_every_sequence(lengths, plan, index);
}

// Known fault B17, and the rule of starts, over many shapes with empty and tiny documents.
TEST(GptIndex, PropertiesOfRandomShapes) {
  uint64_t state = 42;
  const auto draw = [&](uint64_t n) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> lengths(1 + draw(20));
    for (auto& n : lengths) n = static_cast<int32_t>(draw(30));
    lengths[0] += 3;
    const auto sequence = static_cast<int64_t>(1 + draw(17));
    const bool extra = draw(4) != 0;
    int64_t tokens = 0;
    for (const auto n : lengths) tokens += n;
    const auto wanted = static_cast<int64_t>(1 + draw(60));
    SCOPED_TRACE(text("round ", round));
    const auto [plan, index] =
        build(lengths, sequence, wanted, static_cast<uint32_t>(round), extra);
    ASSERT_GE(plan.samples, wanted);
    ASSERT_EQ(index.start_document.size(), plan.samples + 1);
    ASSERT_EQ(index.shuffle.size(), index.start_document.size() - 1);
    auto order = values(index.shuffle);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < plan.samples; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
    ASSERT_EQ(index.documents.size(), plan.epochs * static_cast<int64_t>(lengths.size()));
    // One epoch less would not have been enough.
    ASSERT_TRUE(plan.epochs == 1 || (plan.epochs - 1) * tokens < wanted * sequence + plan.extra);
    expect_starts_every_sequence(lengths, plan, index);
  }
}

TEST(GptIndex, KeepsAPartialLastSample) {
  const auto [plan, index] = build({5, 3}, 4, 0, 1234, true, false);  // 8 tokens: 4, then 3 labels
  EXPECT_EQ(plan.samples, 2);
  EXPECT_EQ(index.start_document[2], 1);
  const auto last = kLengths[static_cast<size_t>(index.documents[1])];
  EXPECT_EQ(index.start_offset[2], last - 1);
}

TEST(GptIndex, TooSmallIsAnError) {
  const std::vector<int32_t> lengths{3, 1};
  const auto plan =
      plan_index({{0, 2}, 0, 4, true, true, 1}, Lengths(std::as_bytes(std::span(lengths))));
  EXPECT_EQ(plan.status().message(),
            "the split is too small for one sample\n  its 2 sequences have 4 tokens together, one "
            "sample needs 5\n  fix: use more data, a larger share in split, or a shorter sequence "
            "length");
}

TEST(GptIndex, AbsurdNumberOfSamplesIsAnError) {
  const std::vector<int32_t> lengths{10};
  const auto plan = plan_index({{0, 1}, int64_t{1} << 50, 4096, true, true, 1},
                               Lengths(std::as_bytes(std::span(lengths))));
  EXPECT_EQ(
      plan.status().message(),
      "1125899906842624 samples are too many for this split\n  its 10 tokens would repeat "
      "461168601842738791 times\n  fix: lower the iterations or the batch size, or use more data");
}

std::pair<int64_t, int64_t> range(std::string_view split, int number, int64_t total) {
  const auto r = split_range(*parse_split(split), number, total);
  return {r.first, r.count};
}

TEST(Split, RoundsAsPython) {
  EXPECT_EQ(range("969,30,1", 0, 1000), std::make_pair(int64_t{0}, int64_t{969}));
  EXPECT_EQ(range("969,30,1", 1, 1000), std::make_pair(int64_t{969}, int64_t{30}));
  EXPECT_EQ(range("969,30,1", 2, 1000), std::make_pair(int64_t{999}, int64_t{1}));
  // Halves go to the even neighbour: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2.
  EXPECT_EQ(range("1, 1", 0, 1), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(range("1, 1", 1, 1), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(range("1,1", 0, 3), std::make_pair(int64_t{0}, int64_t{2}));
  EXPECT_EQ(range("1,1", 0, 5), std::make_pair(int64_t{0}, int64_t{2}));
  EXPECT_EQ(range("100", 2, 5), std::make_pair(int64_t{5}, int64_t{0}));
}

TEST(Split, Errors) {
  const auto error = [](std::string_view split, std::string_view cause) {
    return text("split = \"", split, "\" is not a split\n  ", cause,
                "\n  fix: write the weights of train, valid and test, e.g. split = \"969,30,1\"");
  };
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", "'' is not a number"},
      {"9,x,1", "'x' is not a number"},
      {"9,,1", "'' is not a number"},
      {"1,1,1,1", "it has more than three weights"},
      {"1,-1", "weight -1 is not a finite number of at least 0"},
      {"1,nan", "weight nan is not a finite number of at least 0"},
      {"inf,1", "weight inf is not a finite number of at least 0"},
      {"1e308,1e308,1e308", "its weights sum to inf"},
      {"0,0,0", "its weights sum to 0"},
  };
  for (const auto& [split, cause] : kCases)
    EXPECT_EQ(parse_split(split).status().message(), error(split, cause));
  EXPECT_EQ(split_number("dev").status().message(),
            "dataset 'megatron_gpt' has no split 'dev'\n  its splits are train, valid and test\n  "
            "fix: ask for one of these");
}

}  // namespace
}  // namespace megatron::gpt
