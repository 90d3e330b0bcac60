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
    put("checkpoints/replaced/mine", "of the user");
  }
  void expect_old_run() const {
    EXPECT_EQ(get("metrics.jsonl"), "old");
    EXPECT_EQ(get("config.toml"), "old");
    EXPECT_EQ(get("checkpoints/iter_0000004/model"), "old");
    EXPECT_EQ(get("checkpoints/latest_checkpointed_iteration.txt"), "4");
    EXPECT_EQ(get("checkpoints/notes/mine"), "of the user");
    EXPECT_EQ(get("checkpoints/replaced/mine"), "of the user");
    EXPECT_FALSE(fs::exists(run() + "/checkpoints/.replaced"));
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

TEST_F(RunFolderTest, AResumedRunMakesNoFolder) {
  const Status refused = open(Use::resume).status();
  EXPECT_EQ(refused.message(), text("there is no run to resume in '", run(),
                                    "'\n  the folder does not exist\n  fix: correct "
                                    "train.output_dir, or start without --resume"));
  EXPECT_EQ(RunFolder::check(run(), Use::resume, nullptr).message(), refused.message());
  EXPECT_FALSE(fs::exists(run()));
}

TEST_F(RunFolderTest, WritesNoLockThroughALink) {
  put("precious", "of the user");
  fs::create_symlink("precious", run() + "/.megatron.lock");
  EXPECT_THAT(std::string(open(Use::fresh).status().message()),
              HasSubstr(".megatron.lock\n  the system says: Too many levels of symbolic links"));
  EXPECT_EQ(get("precious"), "of the user");
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
  put("checkpoints/.replaced/iter_0000004/model", "old");
  fs::remove_all(run() + "/checkpoints/iter_0000004");
  fs::rename(run() + "/metrics.jsonl", run() + "/metrics.jsonl.replaced");
  fs::rename(run() + "/checkpoints/latest_checkpointed_iteration.txt",
             run() + "/checkpoints/.replaced/latest_checkpointed_iteration.txt");
  put("metrics.jsonl", "new");
  put("checkpoints/iter_0000001.incomplete/model", "half");
  { ASSERT_TRUE(open(Use::resume).ok()); }
  expect_old_run();
}

// Half of the old checkpoints are moved, to where they are set aside or back from there.
TEST_F(RunFolderTest, ARunThatWasKilledWhileItMovedTheOldOneLosesNoneOfIt) {
  put_old_run();
  put("checkpoints/.replacing/iter_0000002/model", "old");
  fs::rename(run() + "/metrics.jsonl", run() + "/metrics.jsonl.replaced");
  put("metrics.jsonl", "new");
  EXPECT_FALSE(*RunFolder::settled(run()));
  { ASSERT_TRUE(open(Use::resume).ok()); }
  expect_old_run();
  EXPECT_THAT(warnings_, testing::ElementsAre(HasSubstr("an interrupted --overwrite set aside")));
  EXPECT_EQ(get("checkpoints/iter_0000002/model"), "old");
  EXPECT_FALSE(fs::exists(run() + "/checkpoints/.replacing"));
  EXPECT_TRUE(*RunFolder::settled(run()));
}

TEST_F(RunFolderTest, ACheckpointOfTheNewRunCountsHoweverItEnds) {
  put_old_run();
  {
    auto folder = open(Use::overwrite);
    throw_if_error(folder->begin());
    put("checkpoints/iter_0000001/model", "new");
  }
  EXPECT_EQ(get("checkpoints/iter_0000001/model"), "new");
  EXPECT_EQ(get("checkpoints/iter_0000004/model"), "absent");
  EXPECT_FALSE(fs::exists(run() + "/checkpoints/.replaced"));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RunFolderTest, AConfigOfTheUserIsNotReplacedUnasked) {
  put("config.toml", "of the user");
  EXPECT_EQ(open(Use::fresh).status().code(), Code::already_exists);
  EXPECT_EQ(get("config.toml"), "of the user");
}

TEST_F(RunFolderTest, TheOldRunGoesWhenTheNewOneHasSomething) {
  put_old_run();
  {
    auto folder = open(Use::overwrite);
    throw_if_error(folder->begin());
    put("metrics.jsonl", "new");
    put("checkpoints/iter_0000001/model", "new");
    folder->keep_new();
  }
  EXPECT_EQ(get("metrics.jsonl"), "new");
  EXPECT_EQ(get("checkpoints/iter_0000001/model"), "new");
  EXPECT_EQ(get("checkpoints/iter_0000004/model"), "absent");
  EXPECT_EQ(get("checkpoints/notes/mine"), "of the user");
  EXPECT_FALSE(fs::exists(run() + "/checkpoints/.replaced"));
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
    folder->keep_new();
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

// ---- check()

class RunFolderCheck : public RunFolderTest {
 protected:
  Status check(const std::string& folder, std::optional<Use> use) {
    return RunFolder::check(folder, use, [this](std::string_view w) { warnings_.emplace_back(w); });
  }
};

TEST_F(RunFolderCheck, LeavesNoTrace) {
  EXPECT_TRUE(check(run() + "/a/b", Use::fresh).ok());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  fs::create_directories(run());
  EXPECT_TRUE(check(run(), Use::fresh).ok());
  EXPECT_TRUE(fs::is_empty(run()));
}

TEST_F(RunFolderCheck, SaysWhatCannotBeCreated) {
  EXPECT_EQ(check("/proc/x", std::nullopt).message(),
            "cannot create /proc/x\n  the system says: No such file or directory\n"
            "  fix: correct the path, or create the missing file or folder");
  put("file", "");
  EXPECT_THAT(std::string(check(run() + "/file/below", std::nullopt).message()),
              HasSubstr(text("cannot create ", run(),
                             "/file/below\n"
                             "  the system says: Not a directory")));
  EXPECT_THAT(std::string(check(run() + "/file", std::nullopt).message()),
              HasSubstr(text("cannot write into ", run(), "/file\n")));
}

TEST_F(RunFolderCheck, RefusesWhatOpenDoesAndOnlyWarnsWithoutAUse) {
  put_old_run();
  const auto expect_refused = [&](Use use, std::string_view says) {
    SCOPED_TRACE(says);
    const std::string refused(check(run(), use).message());
    EXPECT_THAT(refused, HasSubstr(std::string(says)));
    EXPECT_EQ(refused, open(use).status().message());
    warnings_.clear();
    EXPECT_TRUE(check(run(), std::nullopt).ok());
    EXPECT_EQ(warnings_, std::vector<std::string>{refused});
  };
  expect_refused(Use::fresh, "already holds a run\n");
  EXPECT_TRUE(check(run(), Use::resume).ok());
  EXPECT_TRUE(check(run(), Use::overwrite).ok());
  const auto other = open(Use::resume);
  expect_refused(Use::overwrite, "is in use by another run\n  process ");
  expect_old_run();
}

}  // namespace
}  // namespace megatron::train
