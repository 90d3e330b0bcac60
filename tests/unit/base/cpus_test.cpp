#include "base/cpus.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "megatron/status.hpp"
#include "support/temp_folder.hpp"

namespace megatron {
namespace {

namespace fs = std::filesystem;

TEST(Cpus, AreThoseOfTheMaskEachOnce) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  const auto cpus = usable_cpus();
  EXPECT_EQ(cpus.size(), static_cast<size_t>(CPU_COUNT(&mask)));
  std::set<int> ids;
  for (const Cpu& cpu : cpus) {
    EXPECT_TRUE(CPU_ISSET(cpu.id, &mask));
    EXPECT_TRUE(ids.insert(cpu.id).second);
  }
}

TEST(Cpus, CoresComeBeforeTheirSiblings) {
  const auto cpus = usable_cpus();
  for (size_t i = 1; i < cpus.size(); ++i) EXPECT_LE(cpus[i - 1].thread, cpus[i].thread);
}

// Four cores with two threads each, as Linux usually numbers them.
const std::vector<Cpu> kFourCores = {{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 3, 0},
                                     {4, 0, 1}, {5, 1, 1}, {6, 2, 1}, {7, 3, 1}};

TEST(Cpus, RanksShareCoresAndNotSiblings) {
  EXPECT_EQ(cpus_of_rank(kFourCores, 0, 2),
            (std::vector<Cpu>{{0, 0, 0}, {1, 1, 0}, {4, 0, 1}, {5, 1, 1}}));
  EXPECT_EQ(cpus_of_rank(kFourCores, 1, 2),
            (std::vector<Cpu>{{2, 2, 0}, {3, 3, 0}, {6, 2, 1}, {7, 3, 1}}));
  std::set<int> ids;
  for (uint32_t rank = 0; rank < 3; ++rank)
    for (const Cpu& cpu : cpus_of_rank(kFourCores, rank, 3)) EXPECT_TRUE(ids.insert(cpu.id).second);
  EXPECT_EQ(ids.size(), 8u);
}

TEST(Cpus, MoreRanksThanCpusShareAll) { EXPECT_EQ(cpus_of_rank(kFourCores, 8, 9), kFourCores); }

TEST(Cpus, MovingLeavesTheMaskWide) {
  const auto cpus = usable_cpus();
  std::thread([&] {
    move_thread(cpus.back().id);
    EXPECT_EQ(usable_cpus(), cpus);
    move_thread(1 << 20);  // not in the mask: no effect
    EXPECT_EQ(usable_cpus(), cpus);
    ASSERT_TRUE(restrict_thread(std::span(&cpus.back(), 1)));
    EXPECT_EQ(current_cpu(), cpus.back().id);
    EXPECT_EQ(usable_cpus().size(), 1u);
  }).join();
}

struct QuotaCase {
  const char* name;
  std::vector<std::pair<const char*, const char*>> files;
  uint32_t expected;
};

TEST(Cpus, QuotaOfTheControlGroup) {
  const QuotaCase cases[] = {
      {"none", {}, 0},
      {"no limit", {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}, 0},
      {"rounded up",
       {{"proc/self/cgroup", "0::/\n"}, {"sys/fs/cgroup/cpu.max", "150000 100000\n"}},
       2},
      {"a group above is tighter",
       {{"proc/self/cgroup", "0::/pods/mine\n"},
        {"sys/fs/cgroup/pods/mine/cpu.max", "800000 100000\n"},
        {"sys/fs/cgroup/pods/cpu.max", "300000 100000\n"}},
       3},
      {"version 1",
       {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       4},
      {"version 1 without limit",
       {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
        {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
       0},
  };
  for (const QuotaCase& c : cases) {
    const test::TempFolder folder;
    const fs::path root = folder.path();
    for (const auto& [file, content] : c.files) {
      fs::create_directories((root / file).parent_path());
      std::ofstream(root / file) << content;
    }
    EXPECT_EQ(cpu_quota(root.string()), c.expected) << c.name;
    for (const uint32_t cpus : {1u, 2u, 64u}) {
      EXPECT_EQ(worker_count(cpus, root.string()),
                c.expected == 0 ? cpus : std::min(cpus, c.expected))
          << c.name;
    }
    EXPECT_EQ(worker_count(0, root.string()), 1u) << c.name;
  }
}

}  // namespace
}  // namespace megatron
