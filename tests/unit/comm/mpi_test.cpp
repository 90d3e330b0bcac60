// The plugin comm/mpi under mpirun, on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "megatron/host.hpp"
#include "support/temp_folder.hpp"
#include "unit/comm/world.hpp"

namespace megatron::test {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code;
  std::string output;
};

Outcome mpirun(int ranks, const std::string& name) {
  const TempFolder folder;
  const std::string command =
      text("timeout -k 5 60 mpirun --allow-run-as-root --oversubscribe -n ", ranks, " ",
           MEGATRON_BINARY_DIR, "/tests/comm_mpi_rank ", name, " ", folder.path(), " 2>&1");
  Outcome out;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> bytes;
  while (const size_t n = std::fread(bytes.data(), 1, bytes.size(), pipe)) {
    out.output.append(bytes.data(), n);
  }
  out.code = ::pclose(pipe);
  return out;
}

class Mpi : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (std::system("command -v mpirun > /dev/null") != 0)
      GTEST_SKIP() << "mpirun is not installed (Debian package openmpi-bin)";
  }
};

TEST_P(Mpi, CollectivesGiveWhatTheFormulaSays) {
  const auto out = mpirun(GetParam(), "collectives");
  EXPECT_EQ(out.code, 0) << out.output;
}
TEST_P(Mpi, OrderedSumsAreBalancedTrees) {
  const auto out = mpirun(GetParam(), "ordered");
  EXPECT_EQ(out.code, 0) << out.output;
}
TEST_P(Mpi, TransfersInARing) {
  const auto out = mpirun(GetParam(), "transfers");
  EXPECT_EQ(out.code, 0) << out.output;
}
TEST_P(Mpi, GroupsOfTwo) {
  const auto out = mpirun(GetParam(), "groups");
  EXPECT_EQ(out.code, 0) << out.output;
}
TEST_P(Mpi, TheDeadlineReportNamesWhoDidNotArrive) {
  const auto out = mpirun(GetParam(), "deadline");
  EXPECT_THAT(out.output, HasSubstr("AS EXPECTED"));
  EXPECT_THAT(out.output, Not(HasSubstr("FAILED"))) << out.output;
}
INSTANTIATE_TEST_SUITE_P(Ranks, Mpi, ::testing::Values(2, 4));

TEST(MpiWithoutMpirun, SaysHowToStart) {
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  auto loaded = LoadedComm::load("mpi", {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  mgt_comm_context context;
  MGT_INIT(&context);
  context.world_size = 1;
  const Rank rank((*loaded)->table(), (*loaded)->host(), (*loaded)->config(), context);
  EXPECT_EQ(rank.created().code(), Code::failed_precondition);
  EXPECT_THAT(std::string(rank.created().message()),
              HasSubstr("not started by mpirun: OMPI_COMM_WORLD_SIZE is not set\n  fix: start the "
                        "run with `mpirun -n RANKS"));
}

}  // namespace
}  // namespace megatron::test
