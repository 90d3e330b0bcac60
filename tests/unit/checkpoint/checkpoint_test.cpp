// Saving and opening checkpoints: which one is used, which ones are kept, what does not fit.
#include "checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "folder.hpp"
#include "kill_points.hpp"

namespace megatron::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<Checkpoint> newest(const std::string& directory,
                          std::vector<std::string>* warnings = nullptr) {
  return Checkpoint::open_newest(directory, [&](std::string_view w) {
    if (warnings != nullptr) warnings->emplace_back(w);
  });
}

TEST(CheckpointTest, GivesBackWhatWasSaved) {
  const Folder folder;
  const auto saved = save_marked(folder.path(), 12, 0.5F);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  EXPECT_EQ(*saved, folder / "iter_0000012");
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->folder(), *saved);
  EXPECT_EQ(checkpoint->progress().iteration, 12);
  EXPECT_EQ(checkpoint->progress().consumed_samples, 96);
  EXPECT_EQ(mark_of(*checkpoint), 0.5F);
  // Nothing else is left, and the tracker is Megatron's.
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"iter_0000012", "latest_checkpointed_iteration.txt"}));
  EXPECT_EQ(get(folder / "latest_checkpointed_iteration.txt"), "12\n");
  EXPECT_EQ(names_in(*saved),
            (std::vector<std::string>{"config.toml", "manifest.json", "model.safetensors",
                                      "optimizer.safetensors"}));
}

TEST(CheckpointTest, FitsARunOfTheSameTensorsAlone) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 12, 0.5F).ok());
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const auto says = [&](const Contents& run, bool with_optimizer) {
    return std::string(checkpoint->check_fits(run, with_optimizer).message());
  };
  EXPECT_EQ(says(contents(), true), "");
  auto more = contents(), fewer = contents(), wider = contents();
  more.parameters.push_back({"bias", {3}});
  fewer.parameters.pop_back();
  wider.optimizer_states[0].shape = {4, 7};
  EXPECT_THAT(says(more, false), HasSubstr("' has no tensor 'bias'\n"));
  EXPECT_THAT(says(fewer, false), HasSubstr("' has tensor 'norm', for which the run has no place"));
  EXPECT_THAT(says(wider, true), HasSubstr("f32[4, 6]\n  the run's model asks for f32[4, 7]\n"));
  EXPECT_EQ(says(wider, false), "");
}

TEST(CheckpointTest, TheNewestWinsByNumber) {
  const Folder folder;
  for (const int64_t iteration : {9, 10000000, 100})
    ASSERT_TRUE(save_marked(folder.path(), iteration, static_cast<float>(iteration)).ok());
  fs::create_directory(folder / "iter_99999999x");  // not one of ours
  fs::create_directory(folder / "iter_88888888.incomplete");
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->progress().iteration, 10000000);
}

TEST(CheckpointTest, KeepsTheLastOnes) {
  const Folder folder;
  for (int64_t i = 1; i <= 4; ++i) ASSERT_TRUE(save_marked(folder.path(), i, 1.0F, 2).ok());
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"iter_0000003", "iter_0000004",
                                      "latest_checkpointed_iteration.txt"}));
}

// A run fell back from a damaged newer checkpoint: what it saves now must not be thrown away for
// it.
TEST(CheckpointTest, ANewerDamagedOneDoesNotCount) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 10, 1.0F).ok());
  ASSERT_TRUE(save_marked(folder.path(), 30, 3.0F).ok());
  fs::remove(folder / "iter_0000030/model.safetensors");
  ASSERT_TRUE(save_marked(folder.path(), 20, 2.0F, 1).ok());
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->progress().iteration, 20);
  EXPECT_FALSE(fs::exists(folder / "iter_0000010"));
}

TEST(CheckpointTest, TheSameIterationIsReplaced) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 5, 1.0F).ok());
  ASSERT_TRUE(save_marked(folder.path(), 5, 2.0F, 1).ok());
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(mark_of(*checkpoint), 2.0F);
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"iter_0000005", "latest_checkpointed_iteration.txt"}));
}

// Until the commit there is nothing that could be taken for a checkpoint.
TEST(CheckpointTest, WithoutACommitThereIsNone) {
  const Folder folder;
  CheckpointWriter writer(folder.path(), {3, 24}, contents());
  ASSERT_TRUE(writer.begin().ok());
  ASSERT_TRUE(writer.open().ok());
  ASSERT_TRUE(writer.sync().ok());
  EXPECT_FALSE(newest(folder.path()).ok());
}

TEST(CheckpointTest, WhatIsDiscardedLeavesNothing) {
  const Folder folder;
  CheckpointWriter writer(folder.path(), {3, 24}, contents());
  ASSERT_TRUE(writer.begin().ok());
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"iter_0000003.incomplete"});
  EXPECT_TRUE(writer.discard().ok());
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(CheckpointTest, TheNameOfAnotherIterationIsRefused) {
  const Folder folder;
  for (const int64_t iteration : {3, 4}) {
    ASSERT_TRUE(save_marked(folder.path(), iteration, static_cast<float>(iteration)).ok());
  }
  const std::string path = folder / "iter_0000009";
  fs::rename(folder / "iter_0000004", path);
  const std::string message = text("checkpoint '", path,
                                   "' has the name of another iteration\n"
                                   "  its manifest.json is of iteration 4\n"
                                   "  fix: name it iter_0000004, or remove it");
  std::vector<std::string> warnings;
  const auto checkpoint = newest(folder.path(), &warnings);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->progress().iteration, 3);
  EXPECT_EQ(warnings, std::vector<std::string>{message});
  EXPECT_EQ(Checkpoint::open(path + "/").status().code(), Code::data_loss) << "also with a slash";
  fs::rename(path, folder / "best");  // a name that says no iteration
  EXPECT_TRUE(Checkpoint::open(folder / "best").ok());
}

TEST(CheckpointTest, IsOneWithAnyOfItsFiles) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 1, 1.0F).ok());
  const std::string path = folder / "iter_0000001";
  EXPECT_TRUE(*Checkpoint::is_one(path));
  fs::remove(path + "/manifest.json");
  EXPECT_TRUE(*Checkpoint::is_one(path));
  EXPECT_FALSE(*Checkpoint::is_one(folder.path()));
  EXPECT_FALSE(*Checkpoint::is_one(folder / "nowhere"));
}

TEST(CheckpointTest, WhatDoesNotFitNamesTensorAndShapes) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 1, 1.0F).ok());
  const auto checkpoint = newest(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  const std::string path = folder / "iter_0000001";
  EXPECT_EQ(checkpoint->parameter("word", {6, 4}).status().message(),
            text("tensor 'word' of checkpoint '", path, "' is f32[4, 6]\n",
                 "  the run's model asks for f32[6, 4]\n",
                 "  fix: use the model of the checkpoint's config.toml"));
  EXPECT_EQ(checkpoint->parameter("layers.2.up", {2}).status().message(),
            text("checkpoint '", path, "' has no tensor 'layers.2.up'\n",
                 "  it was written by another model or another optimizer\n",
                 "  fix: load it with the model and optimizer that its config.toml names"));
  EXPECT_EQ(checkpoint->optimizer_state("exp_avg_sq.word", {4, 6}).status().code(),
            Code::not_found);
}

TEST(CheckpointTest, WhatCannotBeRemovedIsAWarning) {
  const Folder folder;
  for (int64_t i = 1; i <= 2; ++i) ASSERT_TRUE(save_marked(folder.path(), i, 1.0F).ok());
  std::vector<std::string> warnings;
  const Refuse refuse("iter_0000001");
  const auto saved =
      save_marked(folder.path(), 3, 3.0F, 1, [&](std::string_view w) { warnings.emplace_back(w); });
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with(text("cannot remove ", folder / "iter_0000001",
                                           "\n  the system says: Device or resource busy")))
      << warnings[0];
  EXPECT_FALSE(fs::exists(folder / "iter_0000002"));
  EXPECT_EQ(newest(folder.path())->progress().iteration, 3);
}

TEST(CheckpointTest, ARenameThatFailsIsAnError) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 1, 1.0F).ok());
  {
    const Refuse refuse("iter_0000002.incomplete");
    const auto saved = save_marked(folder.path(), 2, 2.0F, 1);
    ASSERT_FALSE(saved.ok());
    EXPECT_TRUE(saved.status().message().starts_with(
        text("cannot rename ", folder / "iter_0000002.incomplete",
             "\n  the system says: Device or resource busy")))
        << saved.status().message();
  }
  EXPECT_EQ(newest(folder.path())->progress().iteration, 1) << "and the old one stays";
  ASSERT_TRUE(save_marked(folder.path(), 2, 2.0F, 1).ok()) << "over what the failure left";

  // A file system that cannot let two folders change places.
  const PlainRenames plain;
  ASSERT_TRUE(save_marked(folder.path(), 2, 3.0F).ok());
  EXPECT_EQ(mark_of(*newest(folder.path())), 3.0F);
  {
    const Refuse refuse("iter_0000002");
    const auto saved = save_marked(folder.path(), 2, 4.0F);
    ASSERT_FALSE(saved.ok());
    EXPECT_TRUE(
        saved.status().message().starts_with(text("cannot rename ", folder / "iter_0000002", "\n")))
        << saved.status().message();
  }
  EXPECT_EQ(mark_of(*newest(folder.path())), 3.0F);
}

TEST(CheckpointTest, SaysWhyThereIsNone) {
  const Folder folder;
  const auto message = [&](const std::string& path) {
    return std::string(newest(path).status().message());
  };
  const std::string fix = "\n  fix: check the path, or start the run anew";
  EXPECT_EQ(message(folder / "nowhere"),
            text("there is no sound checkpoint in '", folder / "nowhere",
                 "'\n  the folder does not exist", fix));
  EXPECT_EQ(message(folder.path()), text("there is no sound checkpoint in '", folder.path(),
                                         "'\n  it holds no folder iter_NNNNNNN", fix));
  fs::create_directory(folder / "iter_0000001");
  EXPECT_EQ(message(folder.path()), text("there is no sound checkpoint in '", folder.path(),
                                         "'\n  its only checkpoint is damaged", fix));
  fs::create_directory(folder / "iter_0000002");
  EXPECT_EQ(message(folder.path()), text("there is no sound checkpoint in '", folder.path(),
                                         "'\n  all of its 2 checkpoints are damaged", fix));
  put(folder / "file", "");
  EXPECT_TRUE(message(folder / "file")
                  .starts_with(text("cannot read ", folder / "file",
                                    "\n  the system says: Not a directory\n  fix: ")))
      << message(folder / "file");
}

// A sound checkpoint of another writer.
TEST(CheckpointTest, ATensorOfAnotherTypeIsNamedWithIt) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 1, 1.0F).ok());
  const std::string path = folder / "iter_0000001";
  std::string model = get(path + "/model.safetensors");
  for (size_t at = 0; (at = model.find("\"F32\"")) != std::string::npos;)
    model.replace(at, 5, "\"I32\"");
  put(path + "/model.safetensors", model);
  auto manifest = nlohmann::ordered_json::parse(get(path + "/manifest.json"));
  manifest["files"]["model.safetensors"]["xxh3_128"] = hash_hex(model);
  manifest.erase("manifest_xxh3_128");
  manifest["manifest_xxh3_128"] = hash_hex(manifest.dump());
  put(path + "/manifest.json", manifest.dump());
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->parameter("word", {4, 6}).status().message(),
            text("tensor 'word' of checkpoint '", path, "' is i32[4, 6]\n",
                 "  the run's model asks for f32[4, 6]\n",
                 "  fix: use the model of the checkpoint's config.toml"));
}

// A newer host's is sound: the run must not fall back to an older one and write over it.
TEST(CheckpointTest, ANewerFormatIsNotPassedOver) {
  const Folder folder;
  for (const int64_t iteration : {1, 2}) ASSERT_TRUE(save_marked(folder.path(), iteration, 1).ok());
  put(folder / "iter_0000002/manifest.json",
      text(R"({"format":2,"manifest_xxh3_128":")", hash_hex(R"({"format":2})"), "\"}"));
  const auto newest = Checkpoint::open_newest(folder.path(), [](auto w) { ADD_FAILURE() << w; });
  EXPECT_EQ(newest.status().message(), text("checkpoint '", folder / "iter_0000002",
                                            "' has the format 2\n  this host reads format 1\n"
                                            "  fix: use the host version that wrote it"));
}

}  // namespace
}  // namespace megatron::checkpoint
