// Who holds what: properties of index maps, local runs and flat cuts over random layouts.
#include "passes/layout.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "graph/text.hpp"
#include "passes/local_runs.hpp"
#include "passes/redistribute.hpp"

namespace megatron::passes {
namespace {

class Random {
 public:
  explicit Random(uint32_t seed) : rng_(seed) {}
  int64_t in(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_() % static_cast<uint32_t>(high - low + 1));
  }
  bool chance(int64_t of) { return in(1, of) == 1; }

 private:
  std::mt19937 rng_;
};

struct Trial {
  Layout layout;
  graph::Type type;
  Placement placement;
};

// Up to three mesh axes; each cuts a random dimension, cuts flat, or holds the whole.
Trial random_trial(Random& random) {
  Trial t;
  const int64_t rank = random.in(0, 3);
  for (int64_t d = 0; d < rank; ++d) t.type.dims.push_back({random.in(1, 9), text("d", d)});
  const int64_t axes = random.in(1, 3);
  for (int64_t m = 0; m < axes; ++m) {
    t.layout.axes.push_back({text("m", m), random.in(1, 4)});
    Place place;
    if (rank > 0 && random.chance(2)) {
      place = Place::shard(static_cast<int>(random.in(0, rank - 1)));
      t.layout.mappings.push_back({.logical = text("d", place.dim),
                                   .mesh = text("m", m),
                                   .cut = random.chance(2) ? Cut::balanced : Cut::contiguous});
    } else if (random.chance(3)) {
      place = Place::flat();
    }
    t.placement.push_back(place);
  }
  if (rank > 0 && random.chance(4)) t.layout.multiples["d0"] = random.in(2, 8);
  return t;
}

std::string describe(const Trial& t) {
  std::string out = text(graph::to_string(t.type), " as ", to_string(t.layout, t.placement));
  for (const auto& a : t.layout.axes) out += text(", ", a.name, " of ", a.size);
  return out;
}

// Every element is held exactly once by the ranks that differ on the axes that cut, and by every
// rank of the others.
TEST(LocalRunsProperty, CoverEveryElementOnce) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  Random random(seed);
  for (int round = 0; round < 2000; ++round) {
    const Trial t = random_trial(random);
    SCOPED_TRACE(text("seed ", seed, ", round ", round, ": ", describe(t)));
    const int64_t elements = t.type.elements();
    // Holders of each element, by the coordinates on axes that hold the whole.
    std::map<std::vector<int64_t>, std::vector<int>> holders;
    for (int64_t r = 0; r < t.layout.world_size(); ++r) {
      const auto coordinates = t.layout.coordinates(r);
      std::vector<int64_t> group;
      for (size_t m = 0; m < coordinates.size(); ++m) {
        if (t.placement[m].is(Place::Kind::replicate)) group.push_back(coordinates[m]);
      }
      auto& held = holders[group];
      held.resize(static_cast<size_t>(elements));
      const auto local = localize(t.layout, coordinates, t.type, t.placement);
      int64_t at = 0;
      for (const auto& run : local_runs(t.layout, coordinates, t.type, t.placement)) {
        ASSERT_GE(run.local_begin, at) << "runs are not ascending";
        ASSERT_GT(run.length, 0);
        at = run.local_begin + run.length;
        ASSERT_LE(at, local.type.elements()) << "beyond the local memory";
        for (int64_t i = 0; i < run.length; ++i) {
          ASSERT_LT(run.logical_begin + i, elements);
          ++held[static_cast<size_t>(run.logical_begin + i)];
        }
      }
    }
    for (const auto& [group, held] : holders)
      ASSERT_EQ(held, std::vector<int>(static_cast<size_t>(elements), 1));
  }
}

// The runs say the same as the maps, dimension by dimension, where nothing is cut flat.
TEST(LocalRunsProperty, AgreeWithTheMaps) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  Random random(seed);
  for (int round = 0; round < 500; ++round) {
    Trial t = random_trial(random);
    for (auto& p : t.placement) {
      if (p.is(Place::Kind::flat)) p = Place::replicate();
    }
    SCOPED_TRACE(text("seed ", seed, ", round ", round, ": ", describe(t)));
    const auto coordinates = t.layout.coordinates(random.in(0, t.layout.world_size() - 1));
    const auto local = localize(t.layout, coordinates, t.type, t.placement);
    std::vector<int64_t> by_runs(static_cast<size_t>(local.type.elements()), -1);
    for (const auto& run : local_runs(t.layout, coordinates, t.type, t.placement)) {
      for (int64_t i = 0; i < run.length; ++i)
        by_runs[static_cast<size_t>(run.local_begin + i)] = run.logical_begin + i;
    }
    for (int64_t e = 0; e < local.type.elements(); ++e) {
      int64_t rest = e;
      int64_t logical = 0;
      int64_t stride = 1;
      for (size_t d = t.type.rank(); d-- > 0;) {
        const int64_t index = local.maps[d].global(rest % local.maps[d].local_size());
        rest /= local.maps[d].local_size();
        logical = index < 0 || logical < 0 ? -1 : logical + index * stride;
        stride *= t.type.dims[d].size;
      }
      ASSERT_EQ(by_runs[static_cast<size_t>(e)], logical) << "element " << e;
    }
  }
}

// Cutting a part again cuts what the part holds: maps nest, and global() and local() are inverse.
TEST(IndexMapProperty, CutsNest) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  Random random(seed);
  const auto cut_kind = [&] { return random.chance(2) ? Cut::balanced : Cut::contiguous; };
  for (int round = 0; round < 2000; ++round) {
    const int64_t size = random.in(1, 40);
    const Cut outer = cut_kind();
    const Cut inner = cut_kind();
    const int64_t outer_parts = random.in(1, 4);
    const int64_t inner_parts = random.in(1, 4);
    SCOPED_TRACE(text("seed ", seed, ", round ", round, ": ", size, " in ", outer_parts, " x ",
                      inner_parts));
    std::vector<int> held(static_cast<size_t>(size));
    for (int64_t o = 0; o < outer_parts; ++o) {
      const IndexMap part =
          IndexMap::identity(size).padded(random.in(1, 5)).cut(outer, outer_parts, o);
      std::vector<int> again(static_cast<size_t>(size));
      for (int64_t i = 0; i < inner_parts; ++i) {
        const IndexMap piece = part.cut(inner, inner_parts, i);
        ASSERT_EQ(piece.local_size(), IndexMap::part_size(part.local_size(), inner, inner_parts));
        for (int64_t l = 0; l < piece.local_size(); ++l) {
          const int64_t g = piece.global(l);
          if (g < 0) continue;
          ASSERT_EQ(piece.local(g), l);
          ASSERT_GE(part.local(g), 0) << "the outer part does not hold what its piece holds";
          ++again[static_cast<size_t>(g)];
        }
      }
      for (int64_t g = 0; g < size; ++g)
        ASSERT_EQ(again[static_cast<size_t>(g)], part.local(g) >= 0 ? 1 : 0) << "index " << g;
    }
    // A part of every size must be cut alike for the whole to be covered: same padding.
    const int64_t multiple = random.in(1, 5);
    for (int64_t o = 0; o < outer_parts; ++o) {
      const IndexMap part = IndexMap::identity(size).padded(multiple).cut(outer, outer_parts, o);
      for (int64_t g = 0; g < size; ++g) held[static_cast<size_t>(g)] += part.local(g) >= 0 ? 1 : 0;
    }
    ASSERT_EQ(held, std::vector<int>(static_cast<size_t>(size), 1));
  }
}

TEST(IndexMap, BalancedCutsShareTheWorkOfACausalMask) {
  // 2·CP chunks: rank r holds chunks r and 2·CP − 1 − r.
  const auto rank0 = IndexMap::identity(16).cut(Cut::balanced, 2, 0);
  const auto rank1 = IndexMap::identity(16).cut(Cut::balanced, 2, 1);
  const auto work = [](const IndexMap& map) {
    int64_t sum = 0;
    for (int64_t l = 0; l < map.local_size(); ++l) sum += map.global(l) + 1;  // keys of a query
    return sum;
  };
  EXPECT_EQ(rank0, IndexMap(16, 8, {{0, 0, 4}, {4, 12, 4}}));
  EXPECT_EQ(rank1, IndexMap(16, 8, {{0, 4, 8}}));
  EXPECT_EQ(work(rank0), work(rank1));
}

// An axis outside of one that already cuts: the whole is gathered first, then cut in their order.
TEST(Redistribute, CutsOutsideOfACut) {
  Layout layout;
  layout.axes = {{"outer", 2}, {"inner", 2}};
  layout.mappings = {{.logical = "seq", .mesh = "outer"}, {.logical = "seq", .mesh = "inner"}};
  const graph::Type type{DType::f32, {{8, "seq"}}};
  const Placement from = {Place::replicate(), Place::shard(0)};
  graph::ProgramBuilder builder("p");
  const auto local = localize(layout, {0, 0}, type, from);
  const auto x = builder.input("x", local.type);
  ASSERT_TRUE(x.ok());
  Redistributor moves(layout, {0, 0}, builder);
  const auto moved = moves.move({*x, type, from}, {Place::shard(0), Place::shard(0)}, 0);
  ASSERT_TRUE(moved.ok()) << moved.status().message();
  EXPECT_EQ(graph::print(builder.program()),
            "program p\n"
            "  input %x : f32[seq=4]\n"
            "  %1 = all_gather(%x) {axis = \"inner\", parts = 2} : f32[2, seq=4]\n"
            "  %2 = unstack(%1) {cut = 1, dim = 0, size = 8} : f32[seq=8]\n"
            "  %3 = slice(%2) {cut = 1, dim = 0, index = 0, parts = 2} : f32[seq=4{0+4 of 8}]\n"
            "  %4 = slice(%3) {cut = 1, dim = 0, index = 0, parts = 2} : f32[seq=2{0+2 of 8}]\n"
            "end\n");
}

}  // namespace
}  // namespace megatron::passes
