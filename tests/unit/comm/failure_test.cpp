// What happens when a rank is late, dead, elsewhere in the program, or when everybody should stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "support/other_threads.hpp"
#include "unit/comm/world.hpp"

namespace megatron::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// Far below the default time-out of a collective, far above what a loaded machine adds.
constexpr double kSoon = 15;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Ranks of one host, and of as many hosts as ranks.
class Failures : public ::testing::TestWithParam<bool> {
 protected:
  static World world(uint32_t ranks) {
    World w{.ranks = ranks};
    for (uint32_t r = 0; GetParam() && r < ranks; ++r) w.hosts.push_back(text("h", r));
    return w;
  }
};

TEST_P(Failures, TheDeadlineReportNamesWhoDidNotArrive) {
  expect_all_pass(world(3), [](Rank& r) {
    const auto group = r.group("data");
    std::vector<float> x(100'000);
    auto o = operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), x.size(),
                       "step 12: gradients 3");
    o.timeout_ms = 1500;
    if (r.rank() != 1) {
      const auto start = Clock::now();
      const Status s = group.run({o});
      EXPECT_EQ(s.code(), Code::deadline_exceeded);
      EXPECT_THAT(std::string(s.message()),
                  HasSubstr("all_reduce 'step 12: gradients 3' of group 'data' was not complete "
                            "after 1.5 s"));
      EXPECT_THAT(std::string(s.message()),
                  HasSubstr("arrived: ranks 0 and 2; did not arrive: rank 1"));
      EXPECT_GT(seconds_since(start), 1.3);
      EXPECT_LT(seconds_since(start), kSoon);
      const Status again = group.run({o});
      EXPECT_EQ(again.code(), Code::failed_precondition);
      EXPECT_THAT(std::string(again.message()), HasSubstr("group 'data' is unusable"));
    }
    r.meet("end");
  });
}

TEST_P(Failures, ARecvWithoutASendNamesTheSender) {
  expect_all_pass(world(2), [](Rank& r) {
    const auto group = r.group("pipeline");
    float x = 0;
    auto o = operation(MGT_RECV, MGT_DTYPE_F32, nullptr, &x, 1, "activation 4");
    o.peer = 1;
    o.timeout_ms = 300;
    if (r.rank() == 0) {
      const Status s = group.run({o});
      EXPECT_EQ(s.code(), Code::deadline_exceeded);
      EXPECT_THAT(std::string(s.message()), HasSubstr("recv 'activation 4' of group 'pipeline'"));
      EXPECT_THAT(std::string(s.message()), HasSubstr("did not arrive: rank 1"));
    }
    r.meet("end");
  });
}

TEST_P(Failures, AKilledRankIsNamedAtOnce) {
  const auto codes = run_ranks(world(3), [](Rank& r) {
    const auto group = r.group("world");
    const Status all = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
    EXPECT_TRUE(all.ok()) << all.message();
    if (r.rank() == 1) {
      std::this_thread::sleep_for(200ms);
      ::kill(::getpid(), SIGKILL);
    }
    std::vector<float> x(50'000);
    const auto start = Clock::now();
    const Status s =
        group.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), x.size(), "sum")});
    EXPECT_EQ(s.code(), Code::unavailable) << s.message();
    EXPECT_THAT(std::string(s.message()), HasSubstr("all_reduce 'sum' of group 'world'"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("rank 1 is gone"));
    EXPECT_LT(seconds_since(start), kSoon);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, -SIGKILL, 0}));
}

TEST_P(Failures, DifferentCollectivesAreReportedWithBothNames) {
  expect_all_pass(world(2), [](Rank& r) {
    const auto group = r.group("world");
    std::vector<float> x(1000);
    const bool first = r.rank() == 0;
    auto o = operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), first ? 1000 : 999,
                       first ? "gradients" : "loss");
    o.timeout_ms = 5000;
    const Status s = group.run({o});
    EXPECT_EQ(s.code(), Code::failed_precondition) << s.message();
    EXPECT_THAT(std::string(s.message()), HasSubstr("all_reduce 'gradients' of 1000 f32 (sum)"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("all_reduce 'loss' of 999 f32 (sum)"));
    r.meet("end");
  });
}

TEST_P(Failures, AbortEndsAWaitOfAnotherThread) {
  expect_all_pass(world(2), [](Rank& r) {
    const auto group = r.group("world");
    if (r.rank() == 0) {
      std::thread other([&] {
        std::this_thread::sleep_for(100ms);
        r.abort("rank 7 failed");
      });
      const auto start = Clock::now();
      const Status s = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0, "end of step")});
      other.join();
      EXPECT_EQ(s.code(), Code::aborted);
      EXPECT_THAT(std::string(s.message()), HasSubstr("rank 7 failed"));
      EXPECT_LT(seconds_since(start), kSoon);
    }
    r.meet("end");
  });
}

TEST_P(Failures, ARankThatLeavesAfterItsPartDisturbsNobody) {
  expect_all_pass(world(3), [](Rank& r) {
    const auto group = r.group("world");
    std::vector<float> x(50'000, static_cast<float>(r.rank()));
    if (r.rank() == 2) std::this_thread::sleep_for(150ms);
    auto o = operation(MGT_BROADCAST, MGT_DTYPE_F32, nullptr, x.data(), x.size());
    o.peer = 0;
    const Status s = group.run({o});
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_EQ(x, std::vector<float>(x.size(), 0.0f));
    // Rank 0 and 1 leave at once; rank 2 may still be on its way.
  });
}

// While one communicator is taken down, the others' goodbyes arrive.
TEST_P(Failures, LeavingTogetherDisturbsNobody) {
  for (int world_number = 0; world_number < 6; ++world_number) {
    expect_all_pass(world(5), [](Rank& r) {
      const auto group = r.group("world");
      const Status s = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
      ASSERT_TRUE(s.ok()) << s.message();
      std::this_thread::sleep_for(100ms);  // the progress threads rest, and only listen
      r.meet("end");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, Failures, ::testing::Values(false, true),
                         [](const auto& p) { return p.param ? "Different" : "Same"; });

TEST(Resources, NothingIsLeftInSharedMemoryFolders) {
  const auto names = [] {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator("/dev/shm"))
      out.push_back(e.path().string());
    return out;
  };
  const auto before = names();
  run_ranks({.ranks = 2}, [&](Rank& r) {
    const auto group = r.group("world");
    auto* x = r.allocate<float>(1 << 20);
    std::memset(x, 0, 4 << 20);
    static_cast<void>(group.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, 1 << 20)}));
    EXPECT_EQ(names(), before);
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(names(), before);
}

TEST(Resources, AnIdleProgressThreadSleepsUntilItIsNeeded) {
  if (!kThreadsCanRest) GTEST_SKIP() << "ThreadSanitizer has a thread that never rests";
  for (const bool hosts : {false, true}) {
    World world{.ranks = 2};
    if (hosts) world.hosts = {"a", "b"};
    expect_all_pass(world, [](Rank& r) {
      const auto group = r.group("world");
      const Status s = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
      ASSERT_TRUE(s.ok()) << s.message();
      EXPECT_TRUE(other_threads_fall_asleep());
      r.meet("end");
    });
  }
}

// A rank that waits long must not burn its processor either: spinning would take most of the second
// that it waits, the wide limit is for a machine with other work.
TEST(Resources, WaitingLongSleeps) {
  expect_all_pass({.ranks = 2}, [](Rank& r) {
    const auto group = r.group("world");
    if (r.rank() == 1) std::this_thread::sleep_for(1s);
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    const Status s = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
    ::getrusage(RUSAGE_SELF, &after);
    ASSERT_TRUE(s.ok()) << s.message();
    const auto us = [](const rusage& u) {
      return u.ru_utime.tv_usec + u.ru_utime.tv_sec * 1'000'000;
    };
    EXPECT_LT(us(after) - us(before), 250'000);
  });
}

TEST(Errors, OfTheCallerAreRefusedAtTheStart) {
  expect_all_pass({.ranks = 2}, [](Rank& r) {
    const auto group = r.group("world");
    float x = 0;
    auto o = operation(MGT_SEND, MGT_DTYPE_F32, &x, nullptr, 1, "far");
    o.peer = 2;
    const auto refused = group.start({o});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::invalid_argument);
    EXPECT_THAT(
        std::string(refused.status().message()),
        HasSubstr("send 'far' of group 'world' cannot start\n  peer 2 is not among its 2 ranks"));
    const auto null = group.start({operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, nullptr, &x, 1, "x")});
    ASSERT_FALSE(null.ok());
    EXPECT_THAT(std::string(null.status().message()), HasSubstr("`send` is null"));
    auto bytes = operation(MGT_ALL_REDUCE, MGT_DTYPE_U8, &x, &x, 1, "bytes");
    const auto type = group.start({bytes});
    ASSERT_FALSE(type.ok());
    EXPECT_THAT(std::string(type.status().message()), HasSubstr("u8 cannot be added up"));
  });
}

}  // namespace
}  // namespace megatron::test
