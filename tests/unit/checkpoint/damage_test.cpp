// A damaged newest checkpoint: one warning that names it, and the older one is used. Every file is
// removed, cut at every length and changed at every byte.
#include <gtest/gtest.h>

#include "folder.hpp"

namespace megatron::checkpoint {
namespace {

namespace fs = std::filesystem;

class DamageTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(save_marked(folder_.path(), 1, 1.0F).ok());
    ASSERT_TRUE(save_marked(folder_.path(), 2, 2.0F).ok());
    path_ = text(folder_ / "iter_0000002/", GetParam());
    original_ = get(path_);
    ASSERT_GT(original_.size(), 8U);
  }
  // Plain writing: write_file syncs each of thousands of versions.
  void damage(std::string_view bytes) {
    std::FILE* file = std::fopen(path_.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
  }
  // The older checkpoint is used and the damaged one named; returns the warning.
  std::string fall_back() {
    std::vector<std::string> warnings;
    const auto checkpoint = Checkpoint::open_newest(
        folder_.path(), [&](std::string_view w) { warnings.emplace_back(w); });
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    if (!checkpoint.ok()) return {};
    EXPECT_EQ(checkpoint->progress().iteration, 1);
    EXPECT_EQ(warnings.size(), 1U);
    if (warnings.size() != 1) return {};
    EXPECT_TRUE(warnings[0].starts_with(text("checkpoint '", folder_ / "iter_0000002", "' ")))
        << warnings[0];
    return warnings[0];
  }

  const Folder folder_;
  std::string path_;
  std::string original_;
};

TEST_P(DamageTest, Removed) {
  fs::remove(path_);
  const std::string warning = fall_back();
  EXPECT_NE(warning.find(GetParam()), std::string::npos) << warning;
  EXPECT_NE(warning.find("is incomplete or damaged\n"), std::string::npos) << warning;
  EXPECT_NE(warning.find("No such file or directory"), std::string::npos) << warning;
  EXPECT_NE(warning.find("\n  fix: resume from an older checkpoint of the run"), std::string::npos)
      << warning;
  EXPECT_EQ(warning.find("fix: "), warning.rfind("fix: ")) << warning;
}

TEST_P(DamageTest, CutAtEveryLength) {
  for (size_t length = 0; length < original_.size(); ++length) {
    // Without its last line feed the manifest says the same.
    if (GetParam() == "manifest.json" && length + 1 == original_.size()) continue;
    damage(std::string_view(original_).substr(0, length));
    fall_back();
    ASSERT_FALSE(HasFailure()) << "cut to " << length << " of " << original_.size();
  }
}

TEST_P(DamageTest, ChangedAtEveryByte) {
  for (size_t at = 0; at < original_.size(); ++at) {
    for (const int bit : {0, 1, 6}) {
      std::string bytes = original_;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      damage(bytes);
      fall_back();
      ASSERT_FALSE(HasFailure()) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST_P(DamageTest, Lengthened) {
  damage(original_ + "x");
  fall_back();
}

TEST_P(DamageTest, OfTheOlderSave) {
  damage(get(text(folder_ / "iter_0000001/", GetParam())));
  // The manifest alone may come from another save and still be sound in itself: then its
  // checksums give it away.
  fall_back();
}

INSTANTIATE_TEST_SUITE_P(Files, DamageTest,
                         testing::Values("manifest.json", "model.safetensors",
                                         "optimizer.safetensors", "config.toml"),
                         [](const auto& test) {
                           return test.param.substr(0, test.param.find('.'));
                         });

TEST(ManifestTest, MustNameEveryFile) {
  const Folder folder;
  ASSERT_TRUE(save_marked(folder.path(), 1, 1.0F).ok());
  const std::string path = folder / "iter_0000001";
  put(path + "/manifest.json",
      R"({"format": 1, "iteration": 1, "consumed_samples": 8, "files": {}})");
  EXPECT_EQ(Checkpoint::open(path).status().message(),
            text("checkpoint '", path, "' is incomplete or damaged\n",
                 "  manifest.json: key 'manifest_xxh3_128' not found\n",
                 "  fix: resume from an older checkpoint of the run"));
}

}  // namespace
}  // namespace megatron::checkpoint
