// Initial weights depend on seed, name and element alone: the same for every layout.
#include "train/initialize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>

#include "passes/layout.hpp"

namespace megatron::train {
namespace {

using passes::Layout;
using passes::Place;
using passes::Placement;

std::vector<float> logical(const graph::Initializer& init, uint64_t seed, std::string_view name,
                           int64_t elements) {
  std::vector<float> out(static_cast<size_t>(elements), -7.0F);
  const std::vector<passes::Run> whole = {{0, 0, elements}};
  initialize(init, seed, name, whole, out);
  return out;
}

TEST(Initialize, IsTheSameForEveryLayout) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 rng(seed);
  const auto in = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng() % static_cast<uint32_t>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    const graph::Type type{DType::f32, {{in(1, 13), "a"}, {in(1, 13), "b"}}};
    Layout layout;
    layout.axes = {{"x", in(1, 4)}, {"y", in(1, 4)}};
    layout.mappings = {{.logical = "b", .mesh = "x", .cut = Cut::balanced}};
    layout.multiples["a"] = in(1, 6);
    const Place choices[] = {Place::shard(0), Place::shard(1), Place::flat(), Place::replicate()};
    const Placement placement = {choices[in(0, 3)], choices[in(0, 3)]};
    const graph::Initializer init{MGT_INIT_NORMAL, 0.5, 2};
    const auto expected = logical(init, 42, "w", type.elements());
    for (int64_t rank = 0; rank < layout.world_size(); ++rank) {
      const auto at = layout.coordinates(rank);
      const auto local = passes::localize(layout, at, type, placement);
      const auto runs = passes::local_runs(layout, at, type, placement);
      std::vector<float> out(static_cast<size_t>(local.type.elements()), -7.0F);
      initialize(init, 42, "w", runs, out);
      std::vector<float> want(out.size(), 0.0F);  // padding is zero
      for (const auto& run : runs) {
        for (int64_t i = 0; i < run.length; ++i)
          want[static_cast<size_t>(run.local_begin + i)] =
              expected[static_cast<size_t>(run.logical_begin + i)];
      }
      ASSERT_EQ(out, want) << "seed " << seed << ", round " << round << ", rank " << rank << ": "
                           << graph::to_string(type) << " as "
                           << passes::to_string(layout, placement);
    }
  }
}

TEST(Initialize, SeedAndNameMatter) {
  const graph::Initializer init{MGT_INIT_UNIFORM, -1, 1};
  const auto base = logical(init, 1, "w", 64);
  EXPECT_EQ(logical(init, 1, "w", 64), base);
  EXPECT_NE(logical(init, 2, "w", 64), base);
  EXPECT_NE(logical(init, 1, "v", 64), base);
}

TEST(Initialize, Constants) {
  EXPECT_EQ(logical({MGT_INIT_ZEROS, 0, 0}, 1, "w", 5), std::vector<float>(5, 0.0F));
  EXPECT_EQ(logical({MGT_INIT_ONES, 0, 0}, 1, "w", 5), std::vector<float>(5, 1.0F));
  EXPECT_EQ(logical({MGT_INIT_CONSTANT, 0.1, 0}, 1, "w", 5), std::vector<float>(5, 0.1F));
}

// Moments within five standard errors.
TEST(Initialize, TheDistributionsAreRight) {
  constexpr int64_t kN = 1 << 18;
  struct Moments {
    double mean = 0, variance = 0, low = 1e9, high = -1e9;
  };
  const auto of = [](const std::vector<float>& x) {
    Moments m;
    for (const float v : x) {
      m.mean += static_cast<double>(v) / kN;
      m.low = std::min(m.low, static_cast<double>(v));
      m.high = std::max(m.high, static_cast<double>(v));
    }
    for (const float v : x) m.variance += std::pow(static_cast<double>(v) - m.mean, 2) / kN;
    return m;
  };
  const double error = 5 / std::sqrt(static_cast<double>(kN));
  const auto normal = of(logical({MGT_INIT_NORMAL, 0.5, 0.02}, 3, "w", kN));
  EXPECT_NEAR(normal.mean, 0.5, 0.02 * error);
  EXPECT_NEAR(normal.variance, 0.0004, 0.0004 * error * std::sqrt(2.0));
  EXPECT_GT(normal.high, 0.5 + 4 * 0.02);
  const auto uniform = of(logical({MGT_INIT_UNIFORM, -2, 4}, 3, "w", kN));
  EXPECT_NEAR(uniform.mean, 1, std::sqrt(3.0) * error);
  EXPECT_NEAR(uniform.variance, 3, 3 * error);
  EXPECT_GE(uniform.low, -2);
  EXPECT_LT(uniform.high, 4);
  EXPECT_GT(uniform.high, 3.99);
}

}  // namespace
}  // namespace megatron::train
