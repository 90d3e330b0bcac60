// Results of the collectives of comm/ucx within a host.
#include <gtest/gtest.h>

#include <cstring>

#include "unit/comm/collective_cases.hpp"

namespace megatron::test {
namespace {

class Collectives : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Collectives, GiveWhatTheFormulaSays) {
  expect_all_pass({.ranks = GetParam()}, [](Rank& r) {
    const auto group = r.group("world");
    run_collective_cases(r, group, {});
  });
}

TEST_P(Collectives, OrderedSumsAreBalancedTrees) {
  expect_all_pass({.ranks = GetParam()}, [](Rank& r) {
    const auto group = r.group("world");
    run_ordered_cases(r, group);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1u, 2u, 3u, 4u, 5u));

// Hosts of the ranks; several ranks a host in a row, by turns, or unevenly.
class SpreadCollectives : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  static World world() {
    return {.ranks = static_cast<uint32_t>(GetParam().size()), .hosts = GetParam()};
  }
};

TEST_P(SpreadCollectives, GiveWhatTheFormulaSays) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    run_collective_cases(r, group, {.allocated = r.size() == 2});
  });
}

TEST_P(SpreadCollectives, OrderedSumsAreBalancedTrees) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    run_ordered_cases(r, group);
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, SpreadCollectives,
                         ::testing::Values(std::vector<std::string>{"a", "b"},
                                           std::vector<std::string>{"a", "a", "b", "b"},
                                           std::vector<std::string>{"a", "b", "a", "b"},
                                           std::vector<std::string>{"a", "a", "b"},
                                           std::vector<std::string>{"a", "b", "b", "c", "a"}));

// Values whose sum depends on the order: every rank and every repetition must have the same bits.
TEST(Collectives, SumsHaveTheSameBitsEverywhereAndAlways) {
  expect_all_pass({.ranks = 3}, [](Rank& r) {
    const auto group = r.group("world");
    constexpr uint64_t kCount = 150'001;
    auto* shared = r.allocate<float>(kCount);
    std::vector<float> plain(kCount), first;
    for (int repetition = 0; repetition < 6; ++repetition) {
      float* x = repetition % 2 == 0 ? shared : plain.data();
      for (uint64_t i = 0; i < kCount; ++i) {
        x[i] = 1.0f / static_cast<float>(1 + (i * 13 + r.rank() * 101) % 1009);
      }
      const Status s = group.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, kCount)});
      ASSERT_TRUE(s.ok()) << s.message();
      if (first.empty()) first.assign(x, x + kCount);
      ASSERT_EQ(std::memcmp(first.data(), x, kCount * sizeof(float)), 0) << repetition;
    }
    std::vector<float> of_all(kCount * r.size());
    const Status s =
        group.run({operation(MGT_ALL_GATHER, MGT_DTYPE_F32, first.data(), of_all.data(), kCount)});
    ASSERT_TRUE(s.ok()) << s.message();
    for (uint32_t k = 0; k < r.size(); ++k) {
      ASSERT_EQ(std::memcmp(first.data(), of_all.data() + k * kCount, kCount * sizeof(float)), 0);
    }
  });
}

// One rank's buffer is allocated, another's is not; offsets differ.
TEST(Collectives, MixedMemoryAndDifferentOffsets) {
  expect_all_pass({.ranks = 3}, [](Rank& r) {
    const auto group = r.group("world");
    constexpr uint64_t kCount = 100'000;
    auto* shared = r.allocate<float>(kCount + 4096) + 17 * r.rank();
    std::vector<float> plain(kCount);
    for (const bool one_is_plain : {false, true}) {
      float* x = one_is_plain && r.rank() == 1 ? plain.data() : shared;
      for (uint64_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(r.rank() + i % 5);
      const Status s = group.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, kCount)});
      ASSERT_TRUE(s.ok()) << s.message();
      for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(x[i], static_cast<float>(3 + 3 * (i % 5)));
    }
  });
}

TEST(Collectives, RowsAndColumnsOfAMeshAtTheSameTime) {
  expect_all_pass({.ranks = 4}, [](Rank& r) {
    const uint32_t row = r.rank() / 2, column = r.rank() % 2;
    const auto rows = r.group("row", {row * 2, row * 2 + 1});
    const auto columns = r.group("column", {column, column + 2});
    constexpr uint64_t kCount = 70'000;
    std::vector<float> a(kCount), b(kCount);
    for (int repetition = 0; repetition < 10; ++repetition) {
      for (uint64_t i = 0; i < kCount; ++i) {
        a[i] = static_cast<float>(r.rank());
        b[i] = static_cast<float>(r.rank() * 10);
      }
      auto first =
          rows.start({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, a.data(), a.data(), kCount)});
      auto second =
          columns.start({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, b.data(), b.data(), kCount)});
      ASSERT_TRUE(first.ok() && second.ok());
      // Half of the ranks wait in the other order.
      const bool turned = r.rank() % 2 == 1;
      Status s = turned ? columns.wait(*second) : rows.wait(*first);
      ASSERT_TRUE(s.ok()) << s.message();
      s = turned ? rows.wait(*first) : columns.wait(*second);
      ASSERT_TRUE(s.ok()) << s.message();
      for (uint64_t i = 0; i < kCount; i += 1000) {
        ASSERT_EQ(a[i], static_cast<float>(row * 4 + 1));
        ASSERT_EQ(b[i], static_cast<float>((column * 2 + 2) * 10));
      }
    }
  });
}

// Creating a group or memory waits for the others, which may be waiting for this rank's part of
// what it started before.
TEST(Collectives, GoOnWhileAGroupIsCreated) {
  expect_all_pass({.ranks = 2}, [](Rank& r) {
    const auto group = r.group("world");
    std::vector<float> x(4'000'000, 1.0f);
    auto request =
        group.start({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), x.size())});
    ASSERT_TRUE(request.ok());
    if (r.rank() == 1) {
      const Status s = group.wait(*request);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    const auto another = r.group("another");
    auto* memory = r.allocate<float>(1000);
    EXPECT_EQ(memory[999], 0.0f);
    if (r.rank() == 0) {
      const Status s = group.wait(*request);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    ASSERT_EQ(x, std::vector<float>(x.size(), 2.0f));
    r.free(memory);
  });
}

TEST(Collectives, ManyUnitsUnderWay) {
  expect_all_pass({.ranks = 2}, [](Rank& r) {
    const auto group = r.group("world");
    constexpr size_t kUnits = 200;
    std::vector<std::vector<int32_t>> x(kUnits);
    std::vector<void*> requests;
    for (size_t u = 0; u < kUnits; ++u) {
      x[u].assign(u % 3 == 0 ? 30'000 : 10 + u, static_cast<int32_t>(u + r.rank()));
      auto request = group.start(
          {operation(MGT_ALL_REDUCE, MGT_DTYPE_I32, x[u].data(), x[u].data(), x[u].size())});
      ASSERT_TRUE(request.ok()) << request.status().message();
      requests.push_back(*request);
    }
    for (size_t u = 0; u < kUnits; ++u) {
      const Status s = group.wait(requests[kUnits - 1 - u]);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    for (size_t u = 0; u < kUnits; ++u) {
      for (const int32_t v : x[u]) ASSERT_EQ(v, static_cast<int32_t>(2 * u + 1)) << u;
    }
  });
}

}  // namespace
}  // namespace megatron::test
