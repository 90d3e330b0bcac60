// Messages between ranks: order per tag, any order of starts, large ones in both directions.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "unit/comm/world.hpp"

namespace megatron::test {
namespace {

using namespace std::chrono_literals;

mgt_collective send(uint32_t peer, uint64_t tag, const std::vector<int32_t>& x) {
  auto o = operation(MGT_SEND, MGT_DTYPE_I32, x.data(), nullptr, x.size(), "message");
  o.peer = peer;
  o.tag = tag;
  return o;
}
mgt_collective recv(uint32_t peer, uint64_t tag, std::vector<int32_t>& x) {
  auto o = operation(MGT_RECV, MGT_DTYPE_I32, nullptr, x.data(), x.size(), "message");
  o.peer = peer;
  o.tag = tag;
  return o;
}

// Two ranks of one host, and two of different hosts.
class Transfers : public ::testing::TestWithParam<bool> {
 protected:
  static World world(uint32_t ranks = 2) {
    World w{.ranks = ranks};
    for (uint32_t r = 0; GetParam() && r < ranks; ++r) w.hosts.push_back(text("h", r));
    return w;
  }
};

TEST_P(Transfers, LargeOnesInBothDirectionsWhateverTheOrder) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    const uint32_t peer = 1 - r.rank();
    for (const size_t count : {1ul, 5000ul, 3'000'001ul}) {
      const std::vector<int32_t> out(count, static_cast<int32_t>(r.rank() + 1));
      std::vector<int32_t> in(count);
      std::vector<mgt_collective> unit = {send(peer, 5, out), recv(peer, 5, in)};
      if (r.rank() == 1) std::swap(unit[0], unit[1]);
      const Status s = group.run(unit);
      ASSERT_TRUE(s.ok()) << s.message();
      ASSERT_EQ(in, std::vector<int32_t>(count, static_cast<int32_t>(peer + 1)));
    }
  });
}

TEST_P(Transfers, KeepTheirOrderForEachTag) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    constexpr size_t kMessages = 60;
    const auto size_of = [](size_t i) { return i % 7 == 0 ? 20'000 : i + 1; };
    if (r.rank() == 0) {
      std::vector<std::vector<int32_t>> out;
      std::vector<mgt_collective> unit;
      for (size_t i = 0; i < kMessages; ++i) {
        out.emplace_back(size_of(i), static_cast<int32_t>(i));
      }
      for (size_t i = 0; i < kMessages; ++i) unit.push_back(send(1, i % 3, out[i]));
      const Status s = group.run(unit);
      ASSERT_TRUE(s.ok()) << s.message();
    } else {
      for (const uint64_t tag : {2, 0, 1}) {  // the last ones first: the others must not block them
        for (size_t i = tag; i < kMessages; i += 3) {
          std::vector<int32_t> in(size_of(i));
          const Status s = group.run({recv(0, tag, in)});
          ASSERT_TRUE(s.ok()) << s.message();
          ASSERT_EQ(in, std::vector<int32_t>(in.size(), static_cast<int32_t>(i)));
        }
      }
    }
  });
}

TEST_P(Transfers, ArriveWhileTheSenderComputes) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    const size_t kCount = 2'000'000;
    std::vector<int32_t> x(kCount, r.rank() == 0 ? 7 : 0);
    if (r.rank() == 0) {
      auto request = group.start({send(1, 1, x)});
      ASSERT_TRUE(request.ok());
      r.meet("received");  // outside the plugin until the other has everything
      const Status s = group.wait(*request);
      ASSERT_TRUE(s.ok()) << s.message();
    } else {
      const Status s = group.run({recv(0, 1, x)});
      ASSERT_TRUE(s.ok()) << s.message();
      ASSERT_EQ(x, std::vector<int32_t>(kCount, 7));
      r.meet("received");
    }
  });
}

TEST_P(Transfers, ARingOfFour) {
  expect_all_pass(world(4), [](Rank& r) {
    const auto group = r.group("world");
    const uint32_t next = (r.rank() + 1) % 4, last = (r.rank() + 3) % 4;
    std::vector<int32_t> at(100'000, static_cast<int32_t>(r.rank())), in(at.size());
    for (int step = 0; step < 4; ++step) {
      const Status s = group.run({send(next, 0, at), recv(last, 0, in)});
      ASSERT_TRUE(s.ok()) << s.message();
      std::swap(at, in);
    }
    ASSERT_EQ(at, std::vector<int32_t>(at.size(), static_cast<int32_t>(r.rank())));
  });
}

TEST_P(Transfers, OfDifferentSizesAreAnError) {
  expect_all_pass(world(), [](Rank& r) {
    const auto group = r.group("world");
    std::vector<int32_t> x(r.rank() == 0 ? 10 : 12);
    const Status s = group.run({r.rank() == 0 ? send(1, 3, x) : recv(0, 3, x)});
    if (r.rank() == 1) {
      EXPECT_EQ(s.code(), Code::failed_precondition);
      EXPECT_NE(s.message().find("rank 0 sent 40 bytes, rank 1 expects 48"), std::string::npos)
          << s.message();
    }
    r.meet("end");
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, Transfers, ::testing::Values(false, true),
                         [](const auto& p) { return p.param ? "Different" : "Same"; });

TEST(AllocatedTransfers, AreReadInPlace) {
  expect_all_pass({.ranks = 2}, [](Rank& r) {
    const auto group = r.group("world");
    constexpr size_t kCount = 5'000'000;
    auto* x = r.allocate<int32_t>(kCount);
    for (size_t i = 0; i < kCount; ++i) x[i] = r.rank() == 0 ? static_cast<int32_t>(i) : 0;
    auto o = operation(r.rank() == 0 ? MGT_SEND : MGT_RECV, MGT_DTYPE_I32, x, x, kCount);
    o.peer = 1 - r.rank();
    const Status s = group.run({o});
    ASSERT_TRUE(s.ok()) << s.message();
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(x[i], static_cast<int32_t>(i));
  });
}

}  // namespace
}  // namespace megatron::test
