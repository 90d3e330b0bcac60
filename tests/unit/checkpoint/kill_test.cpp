// A run that is killed while it saves: at every write, sync, rename, creation and removal there is
// a whole checkpoint to go on from, the one before or the new one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.hpp"
#include "kill_points.hpp"

namespace megatron::checkpoint {
namespace {

struct Scene {
  std::string name;
  int64_t before;  // iteration of the checkpoint that is there
  int64_t saved;   // iteration of the one that is being saved
  int64_t keep;
};

class KillTest : public testing::TestWithParam<Scene> {};

// Saves in a child process that dies at its n-th file operation; returns whether it died.
bool save_and_die(const std::string& directory, const Scene& scene, int n) {
  const pid_t child = ::fork();
  MGT_CHECK(child >= 0);
  if (child == 0) {
    kill_at(n);
    const bool ok = save_marked(directory, scene.saved, 2.0F, scene.keep).ok();
    ::_exit(ok ? 0 : 1);
  }
  int status = 0;
  MGT_CHECK(::waitpid(child, &status, 0) == child);
  MGT_CHECK(WIFEXITED(status));
  EXPECT_TRUE(WEXITSTATUS(status) == 99 || WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  return WEXITSTATUS(status) == 99;
}

TEST_P(KillTest, LeavesAWholeCheckpointAtEveryPoint) {
  const Scene& scene = GetParam();
  int points = 0;
  int old_ones = 0;
  for (bool died = true; died; ++points) {
    const Folder folder;
    ASSERT_TRUE(save_marked(folder.path(), scene.before, 1.0F).ok());
    died = save_and_die(folder.path(), scene, points + 1);
    SCOPED_TRACE(text("killed at file operation ", points + 1));
    std::vector<std::string> warnings;
    const auto checkpoint = Checkpoint::open_newest(
        folder.path(), [&](std::string_view w) { warnings.emplace_back(w); });
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ(warnings, std::vector<std::string>()) << "a half-written folder has a final name";
    const float mark = mark_of(*checkpoint);
    EXPECT_EQ(checkpoint->progress().iteration, mark == 1.0F ? scene.before : scene.saved);
    old_ones += mark == 1.0F ? 1 : 0;
    EXPECT_TRUE(died || mark == 2.0F);
    // The next run saves over whatever is left.
    ASSERT_TRUE(save_marked(folder.path(), scene.saved, 3.0F, scene.keep).ok());
    const auto again = Checkpoint::open_newest(folder.path(), [](std::string_view) {});
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(mark_of(*again), 3.0F);
    ASSERT_LT(points, 500);
  }
  EXPECT_GT(points, 20) << "the save was not interrupted where it writes";
  EXPECT_GT(old_ones, 10);
}

INSTANTIATE_TEST_SUITE_P(Scenes, KillTest,
                         testing::Values(Scene{"the_next", 1, 2, 0},
                                         Scene{"the_next_keep_1", 1, 2, 1},
                                         Scene{"the_same_again", 2, 2, 1}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace megatron::checkpoint
