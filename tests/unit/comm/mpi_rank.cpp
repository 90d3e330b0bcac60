// A rank of the MPI tests: mpirun starts it with the name of a case and a folder for the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <thread>

#include "unit/comm/collective_cases.hpp"

// Open MPI leaks, and unloads its components first, so that no suppression can name them.
extern "C" const char* __lsan_default_options();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_options() { return "detect_leaks=0"; }

namespace megatron::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

void transfers(Rank& r) {
  const auto group = r.group("world");
  const uint32_t next = (r.rank() + 1) % r.size(), last = (r.rank() + r.size() - 1) % r.size();
  std::vector<float> out(1'000'001, static_cast<float>(r.rank())), in(out.size());
  auto send = operation(MGT_SEND, MGT_DTYPE_F32, out.data(), nullptr, out.size());
  send.peer = next;
  auto recv = operation(MGT_RECV, MGT_DTYPE_F32, nullptr, in.data(), in.size());
  recv.peer = last;
  const Status s = group.run({send, recv});
  ASSERT_TRUE(s.ok()) << s.message();
  ASSERT_EQ(in, std::vector<float>(in.size(), static_cast<float>(last)));
}

void groups(Rank& r) {
  const uint32_t half = r.rank() / 2 * 2;
  const auto pair = r.group("pair", {half, half + 1});
  int32_t x = static_cast<int32_t>(r.rank());
  const Status s = pair.run({operation(MGT_ALL_REDUCE, MGT_DTYPE_I32, &x, &x, 1)});
  ASSERT_TRUE(s.ok()) << s.message();
  ASSERT_EQ(x, static_cast<int32_t>(2 * half + 1));
}

// Ends without MPI's end, as a run does after a failure; mpirun then ends the other ranks.
[[noreturn]] void leave_at_once(Rank& r) {
  r.meet("end");
  std::cout << (::testing::Test::HasFailure() ? "FAILED" : "AS EXPECTED") << std::endl;
  std::this_thread::sleep_for(200ms);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

void deadline(Rank& r) {
  const auto group = r.group("data");
  std::vector<float> x(1000);
  auto o = operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), x.size(), "gradients");
  o.timeout_ms = 2000;
  if (r.rank() != 1) {
    const Status s = group.run({o});
    EXPECT_EQ(s.code(), Code::deadline_exceeded);
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("all_reduce 'gradients' of group 'data' was not complete after 2 s"));
    EXPECT_THAT(std::string(s.message()), HasSubstr("did not arrive: rank 1"));
    EXPECT_EQ(group.run({o}).code(), Code::failed_precondition);
  }
  leave_at_once(r);
}

const std::map<std::string, void (*)(Rank&)> kCases = {
    {"collectives",
     [](Rank& r) {
       const auto group = r.group("world");
       run_collective_cases(r, group, {.allocated = false, .large = r.size() == 2});
     }},
    {"ordered",
     [](Rank& r) {
       const auto group = r.group("world");
       run_ordered_cases(r, group);
     }},
    {"transfers", transfers},
    {"groups", groups},
    {"deadline", deadline},
};

uint32_t number_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? 0 : static_cast<uint32_t>(std::atoi(value));
}

}  // namespace
}  // namespace megatron::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 3) return 2;
  using namespace megatron::test;  // NOLINT(google-build-using-namespace): main of a test
  const World world{.ranks = number_of("OMPI_COMM_WORLD_SIZE"), .plugin = "mpi"};
  return run_as_rank(world, number_of("OMPI_COMM_WORLD_RANK"), argv[2], kCases.at(argv[1]));
}
