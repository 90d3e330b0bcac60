#include "base/suggest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace megatron {
namespace {

TEST(EditDistance, Table) {
  struct {
    const char *a, *b;
    size_t distance;
  } const cases[] = {
      {"", "", 0},           {"a", "", 1},
      {"", "abc", 3},        {"steps", "steps", 0},
      {"steps", "stpes", 1}, {"kitten", "sitting", 3},
      {"lr", "rl", 1},       {"Warm-Up", "warm_up", 0},
      {"ca", "abc", 3},  // optimal string alignment, not the unrestricted distance
  };
  for (const auto& c : cases) {
    EXPECT_EQ(edit_distance(c.a, c.b), c.distance) << c.a << " " << c.b;
    EXPECT_EQ(edit_distance(c.b, c.a), c.distance) << c.a << " " << c.b;
  }
}

const std::vector<std::string> kNames = {
    "steps", "seed", "global_batch_size", "micro_batch_size", "eval_steps", "lr", "lr_min"};

TEST(NearNames, Table) {
  using testing::ElementsAre;
  EXPECT_THAT(near_names("stpes", kNames), ElementsAre("steps"));
  EXPECT_THAT(near_names("Global-Batch-Size", kNames, 1), ElementsAre("global_batch_size"));
  EXPECT_THAT(near_names("batch_size", kNames),
              ElementsAre("micro_batch_size", "global_batch_size"));
  EXPECT_THAT(near_names("step", kNames), ElementsAre("steps", "eval_steps"));
  EXPECT_THAT(near_names("xyz", kNames), ElementsAre());
  EXPECT_THAT(near_names("q", kNames), ElementsAre());
  EXPECT_THAT(near_names("", kNames), ElementsAre());
  EXPECT_EQ(nearest_name("sede", kNames), "seed");
  EXPECT_EQ(nearest_name("momentum", kNames), std::nullopt);
}

TEST(ListNames, Table) {
  EXPECT_EQ(list_names({}), "none");
  EXPECT_EQ(list_names(std::vector<std::string>{"a", "b"}), "'a', 'b'");
  EXPECT_EQ(list_names(std::vector<std::string>{"a", "b"}, ""), "a, b");
}

}  // namespace
}  // namespace megatron
