#include "train/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.hpp"
#include "support/temp_folder.hpp"

namespace megatron::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Use = RunFolder::Use;

class RunFolderTest : public testing::Test {
 protected:
  Result<RunFolder> open(Use use) {
    return RunFolder::open(run(), use, [this](std::string_view w) { warnings_.emplace_back(w); });
  }
  std::string run() const { return folder_ / "run"; }
  void put(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(run() + "/" + name).parent_path());
    throw_if_error(write_file(run() + "/" + name, content));
  }
  std::string get(const std::string& name) const {
    const auto content = read_file(run() + "/" + name);
    return content.ok() ? *content : "absent";
  }
  void put_old_run() const {
    put("metrics.jsonl", "old");
    put("config.toml", "old");
    put("checkpoints/iter_0000004/model", "old");
    put("checkpoints/latest_checkpointed_iteration.txt", "4");
    put("checkpoints/notes/mine", "of the user");
  }
  void expect_old_run() const {
    EXPECT_EQ(get("metrics.jsonl"), "old");
    EXPECT_EQ(get("config.toml"), "old");
    EXPECT_EQ(get("checkpoints/iter_0000004/model"), "old");
    EXPECT_EQ(get("checkpoints/latest_checkpointed_iteration.txt"), "4");
    EXPECT_EQ(get("checkpoints/notes/mine"), "of the user");
    EXPECT_FALSE(fs::exists(run() + "/checkpoints/replaced"));
    EXPECT_FALSE(fs::exists(run() + "/metrics.jsonl.replaced"));
  }

  test::TempFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(RunFolderTest, IsForOneProcessAtATime) {
  const auto first = open(Use::fresh);
  ASSERT_TRUE(first.ok());
  const auto second = open(Use::overwrite);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(text("is in use by another run\n  process ", ::getpid(), " on host ")));
}

TEST_F(RunFolderTest, IsFreeWhenItsRunHasEnded) {
  { ASSERT_TRUE(open(Use::fresh).ok()); }
  EXPECT_TRUE(open(Use::fresh).ok());
}

TEST_F(RunFolderTest, AFreshRunTouchesNoOldOne) {
  put_old_run();
  EXPECT_EQ(open(Use::fresh).status().code(), Code::already_exists);
  expect_old_run();
}

TEST_F(RunFolderTest, ARunThatFailsBeforeItBeginsLeavesTheOldOne) {
  put_old_run();
  { ASSERT_TRUE(open(Use::overwrite).ok()); }
  expect_old_run();
}

TEST_F(RunFolderTest, ARunThatKeepsNothingGivesTheOldOneBack) {
  put_old_run();
  {
    auto folder = open(Use::overwrite);
    throw_if_error(folder->begin());
    put("metrics.jsonl", "new");
    EXPECT_EQ(get("checkpoints/iter_0000004/model"), "absent");
  }
  expect_old_run();
  EXPECT_THAT(warnings_, testing::ElementsAre(HasSubstr("holds the old one again")));
}

TEST_F(RunFolderTest, ARunThatWasKilledBeforeItKeptAnythingDoesSoToo) {
  put_old_run();
  put("checkpoints/replaced/iter_0000004/model", "old");
  fs::remove_all(run() + "/checkpoints/iter_0000004");
  fs::rename(run() + "/metrics.jsonl", run() + "/metrics.jsonl.replaced");
  fs::rename(run() + "/checkpoints/latest_checkpointed_iteration.txt",
             run() + "/checkpoints/replaced/latest_checkpointed_iteration.txt");
  put("metrics.jsonl", "new");
  put("checkpoints/iter_0000001.incomplete/model", "half");
  { ASSERT_TRUE(open(Use::resume).ok()); }
  expect_old_run();
}

TEST_F(RunFolderTest, TheOldRunGoesWhenTheNewOneHasSomething) {
  put_old_run();
  {
    auto folder = open(Use::overwrite);
    throw_if_error(folder->begin());
    put("metrics.jsonl", "new");
    put("checkpoints/iter_0000001/model", "new");
    throw_if_error(folder->keep_new());
  }
  EXPECT_EQ(get("metrics.jsonl"), "new");
  EXPECT_EQ(get("checkpoints/iter_0000001/model"), "new");
  EXPECT_EQ(get("checkpoints/iter_0000004/model"), "absent");
  EXPECT_EQ(get("checkpoints/notes/mine"), "of the user");
  EXPECT_FALSE(fs::exists(run() + "/checkpoints/replaced"));
  EXPECT_FALSE(fs::exists(run() + "/metrics.jsonl.replaced"));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RunFolderTest, ALinkToAnotherDiskStaysALink) {
  fs::create_directories(run());
  fs::create_directories(folder_ / "disk");
  fs::create_directory_symlink("../disk", run() + "/checkpoints");
  put_old_run();
  {
    auto folder = open(Use::overwrite);
    throw_if_error(folder->begin());
    put("checkpoints/iter_0000001/model", "new");
    throw_if_error(folder->keep_new());
  }
  EXPECT_TRUE(fs::is_symlink(run() + "/checkpoints"));
  EXPECT_TRUE(fs::exists(folder_ / "disk/iter_0000001/model"));
  EXPECT_FALSE(fs::exists(folder_ / "disk/iter_0000004"));
}

TEST_F(RunFolderTest, AResumedRunIsCleanedOfWhatWasNeverFinished) {
  put_old_run();
  put("checkpoints/iter_0000006.incomplete/model", "half");
  {
    auto folder = open(Use::resume);
    throw_if_error(folder->begin());
  }
  EXPECT_FALSE(fs::exists(run() + "/checkpoints/iter_0000006.incomplete"));
  expect_old_run();
}

}  // namespace
}  // namespace megatron::train
