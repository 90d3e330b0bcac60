// The rendezvous store and its ranks, as threads over loopback.
#include <gtest/gtest.h>

#include <thread>

#include "launch/store_client.hpp"
#include "launch/store_server.hpp"
#include "megatron/status.hpp"

namespace megatron::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

class Store : public testing::Test {
 protected:
  void serve(StoreOptions options) {
    FileDescriptor socket = value_or_throw(listen_on("127.0.0.1", 0));
    info_.store_port = value_or_throw(port_of(socket));
    info_.store_host = "127.0.0.1";
    info_.world_size = options.world_size = 2;
    info_.token = options.token = "a token";
    server_ = std::make_unique<StoreServer>(std::move(socket), options);
  }
  std::unique_ptr<StoreClient> join(uint32_t rank) {
    info_.rank = rank;
    return value_or_throw(StoreClient::join(info_, activity_, {}));
  }

  RankInfo info_;
  Activity activity_;
  std::unique_ptr<StoreServer> server_;
};

TEST_F(Store, OutlivesARankThatIsStillAtItsLastSteps) {
  serve({});
  auto first = join(0);
  auto last = join(1);
  first->goodbye();
  std::thread rank0([&] {
    first.reset();
    server_.reset();
  });
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(last->abort_reason(), "");
  EXPECT_TRUE(last->set("key", "value").ok());
  last->goodbye();
  rank0.join();
  EXPECT_EQ(last->abort_reason(), "");
}

TEST_F(Store, DoesNotWaitForARankThatNeverLeaves) {
  StoreOptions options;
  options.silence_timeout = milliseconds(900);
  serve(options);
  auto first = join(0);
  const auto silent = join(1);
  first->goodbye();
  first.reset();
  const auto start = Clock::now();
  server_.reset();
  EXPECT_LT(Clock::now() - start, seconds(10));
}

TEST_F(Store, TellsAllWhyTheRunStopsBeforeItCloses) {
  serve({});
  auto first = join(0);
  const auto other = join(1);
  first->fail("rank 0 failed: the disk is full");
  first.reset();
  server_.reset();
  EXPECT_EQ(other->abort_reason(), "rank 0 failed: the disk is full");
}

}  // namespace
}  // namespace megatron::launch
