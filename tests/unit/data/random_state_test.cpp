// NumPy's legacy generator, value by value.
#include "plugins/datasets/megatron_gpt/random_state.hpp"

#include <numeric>
#include <sstream>

#include "unit/data/support.hpp"

namespace megatron::gpt {
namespace {

std::vector<int> shuffled(uint32_t seed, int n) {
  std::vector<int> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  RandomState(seed).shuffle(std::span(values));
  return values;
}

TEST(RandomState, RawDraws) {
  RandomState random(1234);
  EXPECT_EQ(random.next_uint32(), 822569775u);
  EXPECT_EQ(random.next_uint32(), 2137449171u);
  EXPECT_EQ(random.next_uint32(), 2671936806u);
  EXPECT_EQ(RandomState(1234).next_double(), 0.1915194503788923);
  EXPECT_EQ(RandomState(1234).next_uint64(), uint64_t{822569775} << 32 | 2137449171u);
}

TEST(RandomState, Permutations) {
  EXPECT_EQ(shuffled(1234, 10), (std::vector<int>{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
  EXPECT_EQ(shuffled(0, 10), (std::vector<int>{2, 8, 4, 9, 1, 6, 7, 3, 0, 5}));
  EXPECT_EQ(shuffled(42, 10), (std::vector<int>{8, 1, 5, 0, 7, 2, 9, 4, 3, 6}));
  EXPECT_EQ(shuffled(42, 1), std::vector<int>{0});
  EXPECT_TRUE(shuffled(42, 0).empty());
}

// NumPy draws 64 bits only when the bound needs them.
TEST(RandomState, IntervalsAboveThirtyTwoBits) {
  RandomState narrow(7), wide(7), raw(7);
  const uint64_t first = raw.next_uint32(), second = raw.next_uint32();
  EXPECT_EQ(narrow.interval(0xFFFFFFFF), first);
  EXPECT_EQ(wide.interval(~uint64_t{0}), first << 32 | second);
  EXPECT_EQ(wide.interval(0), 0u);
}

// NumPy's SeedSequence(entropy).generate_state(624), which seeds MT19937 in NumPy's own test set.
std::vector<uint32_t> seed_sequence(uint32_t entropy) {
  uint32_t constant = 0x43b0d7e5;
  const auto hash = [&](uint32_t v) {
    v ^= constant;
    constant *= 0x931e8875;
    v *= constant;
    return v ^ v >> 16;
  };
  uint32_t pool[4];
  for (int i = 0; i < 4; ++i) pool[i] = hash(i == 0 ? entropy : 0);
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      const uint32_t mixed = 0xca01f9dd * pool[to] - 0x4973f715 * hash(pool[from]);
      pool[to] = mixed ^ mixed >> 16;
    }
  }
  std::vector<uint32_t> state;
  constant = 0x8b51f9dd;
  for (int i = 0; i < 624; ++i) {
    uint32_t v = pool[i % 4] ^ constant;
    constant *= 0x58f38ded;
    v *= constant;
    state.push_back(v ^ v >> 16);
  }
  return state;
}

TEST(RandomState, NumPysTestSet) {
  MGT_SHARED_FILE(path, "/data/rng/mt19937-testset-1.csv");
  auto state = seed_sequence(0xdeadbeaf);
  state[0] = 0x80000000;
  std::stringstream text;  // the standard's text form: the words, then the position
  for (const auto word : state) text << word << ' ';
  text << 623;
  std::mt19937 engine;
  text >> engine;
  ASSERT_TRUE(text);

  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  int rows = 0;
  for (; std::getline(in, line); ++rows) {
    ASSERT_EQ(engine(), std::stoul(line.substr(line.find(',') + 1), nullptr, 16)) << line;
  }
  EXPECT_EQ(rows, 1000);
}

}  // namespace
}  // namespace megatron::gpt
