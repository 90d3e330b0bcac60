// The plugin comm/self.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/comm/collective_cases.hpp"

namespace megatron::test {
namespace {

using ::testing::HasSubstr;

TEST(Self, CollectivesOfOneRank) {
  expect_all_pass({.ranks = 1, .plugin = "self"}, [](Rank& r) {
    const auto group = r.group("world");
    run_collective_cases(r, group, {});
    run_ordered_cases(r, group);
  });
}

TEST(Self, MessagesAreRefused) {
  expect_all_pass({.ranks = 1, .plugin = "self"}, [](Rank& r) {
    const auto group = r.group("world");
    float x = 0;
    const Status s = group.run({operation(MGT_SEND, MGT_DTYPE_F32, &x, nullptr, 1, "hello")});
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_THAT(std::string(s.message()), HasSubstr("'hello' of group 'world'"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("[comm] plugin = \"ucx\""));
  });
}

TEST(Self, SeveralRanksAreRefused) {
  auto loaded = LoadedComm::load("self", {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  mgt_comm_context context;
  MGT_INIT(&context);
  context.world_size = 2;
  const Rank rank((*loaded)->table(), (*loaded)->host(), (*loaded)->config(), context);
  EXPECT_EQ(rank.created().code(), Code::failed_precondition);
  EXPECT_THAT(std::string(rank.created().message()), HasSubstr("cannot serve 2 ranks"));
}

}  // namespace
}  // namespace megatron::test
