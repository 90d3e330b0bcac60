#include "launch/environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace megatron::launch {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Result<std::optional<RankInfo>> detect(const Variables& variables) {
  return detect_rank([&](std::string_view name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  });
}

Variables torchrun(const Variables& other = {}) {
  Variables v = other;
  v.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}});
  return v;
}

TEST(DetectRank, NobodysChild) {
  const auto info = detect({});
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->has_value());
}

TEST(DetectRank, Torchrun) {
  const auto info = detect(torchrun());
  ASSERT_TRUE(info.ok()) << info.status().message();
  ASSERT_TRUE(info->has_value());
  EXPECT_EQ((*info)->rank, 1u);
  EXPECT_EQ((*info)->world_size, 2u);
  EXPECT_EQ((*info)->store_host, "h");
  EXPECT_EQ((*info)->store_port, 29500);
}

TEST(DetectRank, WhatIsNoNumberOrOutOfRangeIsNamed) {
  const struct {
    Variables variables;
    std::string fact;
  } cases[] = {
      {{{"WORLD_SIZE", "two"}}, "WORLD_SIZE is 'two', not a whole number"},
      {{{"WORLD_SIZE", "2 "}}, "WORLD_SIZE is '2 ', not a whole number"},
      {{{"WORLD_SIZE", "-2"}}, "WORLD_SIZE is '-2', not a whole number"},
      {{{"WORLD_SIZE", "0"}}, "WORLD_SIZE is 0, and must lie in 1 to 1048576"},
      {{{"WORLD_SIZE", "1048577"}}, "WORLD_SIZE is 1048577, and must lie in 1 to 1048576"},
      {{{"WORLD_SIZE", "4294967298"}}, "WORLD_SIZE is 4294967298, and must lie in 1 to 1048576"},
      {{{"RANK", "99999999999999999999999"}},
       "RANK is 99999999999999999999999, and must lie in 0 to 1048575"},
      {{{"LOCAL_WORLD_SIZE", "4294967295"}},
       "LOCAL_WORLD_SIZE is 4294967295, and must lie in 1 to"},
      {{{"MASTER_PORT", "0"}}, "MASTER_PORT is 0, and must lie in 1 to 65535"},
      {{{"MASTER_PORT", "65536"}}, "MASTER_PORT is 65536, and must lie in 1 to 65535"},
      {{{"MASTER_PORT", "99999999999"}}, "MASTER_PORT is 99999999999, and must lie in 1 to 65535"},
  };
  for (const auto& c : cases) {
    const auto info = detect(torchrun(c.variables));
    ASSERT_FALSE(info.ok()) << c.fact;
    EXPECT_THAT(info.status().message(), testing::StartsWith("environment variable " + c.fact));
    EXPECT_THAT(info.status().message(),
                testing::EndsWith("\n  the other variables say that torchrun or the local launcher "
                                  "started this process\n  fix: start all ranks the same way, or "
                                  "clear the variables"));
  }
}

TEST(DetectRank, ARankBeyondTheWorld) {
  const auto info = detect(torchrun({{"RANK", "2"}}));
  ASSERT_FALSE(info.ok());
  EXPECT_THAT(info.status().message(), testing::StartsWith("this process is rank 2 of 2 "));
}

}  // namespace
}  // namespace megatron::launch
