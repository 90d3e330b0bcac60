// Dropout is drawn by global positions: the same elements on every implementation and however a
// tensor is cut, and as many as asked for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "simd/dropout_factors.hpp"
#include "unit/devices/instruction_set.hpp"
#include "unit/devices/pool_host.hpp"
#include "unit/devices/run_case.hpp"

namespace megatron::cpu::testing {
namespace {

class DropoutTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  Values run_one(const OpCase& c) const { return run(c, GetParam(), pool_.host())[0]; }

  // Factors of the elements of `t`, the sequences from `first_sample` on.
  Values factors(TensorDesc t, double p, int64_t first_sample = 0) const {
    const Values ones(static_cast<size_t>(t.elements()), 1.0);
    auto c = CaseWriter("dropout", "ones")
                 .attr("p", p)
                 .attr("site", "h.0.mlp")
                 .input(t, ones)
                 .output(t)
                 .formula({});
    c.rng.sample_offset += first_sample;
    return run_one(c);
  }

  const PoolHost pool_{2};
};

TEST_P(DropoutTest, APieceDropsWhatTheWholeDrops) {
  const auto whole = f32({3, 16, 40});
  const Values want = factors(whole, 0.4);
  const auto rows = IndexMap::identity(16), columns = IndexMap::identity(40);
  for (const auto& [first_sample, s, k] : std::vector<std::tuple<int64_t, IndexMap, IndexMap>>{
           {0, piece(16, 5, 6), columns},
           {1, rows, piece(40, 10, 10)},
           {2, rows.cut(Cut::balanced, 2, 0), columns},
           {0, rows.cut(Cut::balanced, 2, 1), columns.cut(Cut::contiguous, 4, 3)}}) {
    const auto part = mapped({IndexMap::identity(3 - first_sample), s, k});
    SCOPED_TRACE(part.to_string());
    const Values got = factors(part, 0.4, first_sample);
    for (size_t e = 0; e < got.size(); ++e) {
      const auto at = unravel(part, static_cast<int64_t>(e));
      const auto global = ravel(
          whole, {at[0] + first_sample, part.global_index(1, at[1]), part.global_index(2, at[2])});
      ASSERT_EQ(got[e], want[static_cast<size_t>(global)]) << e;
    }
  }
}

// A rank that holds some of the heads, or the later half of the queries, computes its slice of the
// whole's result: the weights dropped there are the same.
TEST_P(DropoutTest, APieceOfAttentionDropsWhatTheWholeDrops) {
  const auto b = IndexMap::identity(2), d = IndexMap::identity(8), s = IndexMap::identity(24);
  const auto n = IndexMap::identity(6), g = IndexMap::identity(3);
  const auto attention = [&](const IndexMap& queries, const IndexMap& heads,
                             const IndexMap& groups) {
    const auto q = mapped({b, queries, heads, d}), k = mapped({b, s, groups, d});
    const auto values = [&](const TensorDesc& t, double phase) {  // of the global index alone
      Values out(static_cast<size_t>(t.elements()));
      for (size_t e = 0; e < out.size(); ++e) {
        const auto at = unravel(t, static_cast<int64_t>(e));
        double x = phase;
        for (size_t i = 0; i < 4; ++i) {
          x = 7 * x + static_cast<double>(t.global_index(i, at[i]));
        }
        out[e] = static_cast<float>(std::sin(x));
      }
      return out;
    };
    auto c = CaseWriter("attention", "piece")
                 .attr("causal", int64_t{1})
                 .attr("scale", 0.5)
                 .attr("dropout", 0.3)
                 .attr("site", "h.0.attn")
                 .input(q, values(q, 1))
                 .input(k, values(k, 2))
                 .input(k, values(k, 3))
                 .output(q)
                 .output(mapped({b, heads, queries}))
                 .formula({});
    return std::pair(run_one(c), q);
  };
  const auto [want, whole] = attention(s, n, g);
  const auto expect_slice = [&, &whole_values = want, &whole_t = whole](const IndexMap& queries,
                                                                        const IndexMap& heads,
                                                                        const IndexMap& groups) {
    const auto [got, part] = attention(queries, heads, groups);
    SCOPED_TRACE(part.to_string());
    for (size_t e = 0; e < got.size(); ++e) {
      auto at = unravel(part, static_cast<int64_t>(e));
      for (size_t i = 0; i < 4; ++i) at[i] = part.global_index(i, at[i]);
      // Blocks of keys may be added up in another order; a weight more or less shows at 1e-2.
      ASSERT_NEAR(got[e], whole_values[static_cast<size_t>(ravel(whole_t, at))], 1e-5) << e;
    }
  };
  expect_slice(s, piece(6, 2, 2), piece(3, 1, 1));
  expect_slice(s.cut(Cut::contiguous, 2, 1), n, g);
  expect_slice(s.cut(Cut::balanced, 2, 0), piece(6, 4, 2), piece(3, 2, 1));
}

// Within four standard deviations of a binomial distribution; survivors are scaled by 1/(1−p).
TEST_P(DropoutTest, DropsTheShareAskedFor) {
  const auto t = f32({4, 500, 100});
  const auto n = static_cast<double>(t.elements());
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    const Values got = factors(t, p);
    const auto dropped = static_cast<double>(std::ranges::count(got, 0.0));
    EXPECT_NEAR(dropped / n, p, 4 * std::sqrt(p * (1 - p) / n));
    const auto kept = static_cast<double>(static_cast<float>(1 / (1 - p)));
    EXPECT_TRUE(std::ranges::all_of(got, [&](double f) { return f == 0 || f == kept; })) << p;
  }
}

// Other sequences, steps and sites draw other numbers.
TEST_P(DropoutTest, SequencesDiffer) {
  const Values got = factors(f32({2, 10, 100}), 0.5);
  EXPECT_FALSE(std::equal(got.begin(), got.begin() + 1000, got.begin() + 1000));
  EXPECT_EQ(Values(got.begin() + 1000, got.end()), factors(f32({1, 10, 100}), 0.5, 1));
}

// Many draws at a time are those of the sdk one by one, from any place on: numbers of blocks carry
// into their high word at 2^34 draws, which a head of 131072 tokens reaches.
TEST(DropoutFactors, AreTheDrawsOneByOne) {
  const auto stream = RandomStream::make(77, site_of("h.1.attn"), 5);
  for (const int64_t set : instruction_sets()) {
    const UseInstructionSet use(set);
    for (const uint64_t first :
         {uint64_t{0}, uint64_t{1}, uint64_t{6}, (uint64_t{1} << 34) - 18, (uint64_t{1} << 34) - 1,
          (uint64_t{1} << 34) + 5, (uint64_t{1} << 41) + 3}) {
      for (const int64_t n : {1, 2, 31, 32, 33, 130}) {
        for (const uint64_t sample : {uint64_t{0}, (uint64_t{1} << 32) + 9}) {
          std::vector<float> got(static_cast<size_t>(n), NAN);
          dropout_factors(stream, sample, first, n, DropoutRate::of(0.3), got.data());
          for (int64_t i = 0; i < n; ++i) {
            const bool dropped =
                static_cast<double>(stream.uniform(first + static_cast<uint64_t>(i), sample)) < 0.3;
            ASSERT_EQ(got[static_cast<size_t>(i)], dropped ? 0 : static_cast<float>(1 / 0.7))
                << instruction_set_name(set) << ", draw " << first << " + " << i << ", sample "
                << sample;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, DropoutTest, ::testing::Values("reference", "vectorised"),
                         [](const auto& name) { return std::string(name.param); });

}  // namespace
}  // namespace megatron::cpu::testing
