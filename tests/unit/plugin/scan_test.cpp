// Listings of folders with good, wrong, doubled and misnamed files.
#include "plugin/scan.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "folders.hpp"
#include "support/temp_folder.hpp"

namespace megatron::plugin {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class Scan : public testing::Test {
 protected:
  Scan() {
    for (const char* name : {"a", "b"}) fs::create_directory(folder_ / name);
  }
  // Puts the build's adamw there.
  void put(const std::string& place) const { fs::copy(adamw_, folder_ / place); }
  // "kind/name state place: reason" a row.
  std::vector<std::string> rows(const std::vector<std::string>& files = {}) const {
    SearchPath search{{}, {{folder_ / "a", ""}, {folder_ / "b", ""}}};
    for (const auto& file : files) search.files.push_back(folder_ / file);
    std::vector<std::string> out;
    for (const PluginRow& r : scan(search, this_host(), system_loader_environment()).rows) {
      EXPECT_EQ(r.problem.ok(), r.state == State::available);
      out.push_back(text(r.kind, "/", r.name, " ", state_name(r.state), " ", short_path(r.path),
                         r.reason.empty() ? "" : ": ", short_path(r.reason)));
    }
    return out;
  }
  std::string short_path(std::string s) const {
    for (size_t at; (at = s.find(folder_.path() + "/")) != std::string::npos;)
      s.erase(at, folder_.path().size() + 1);
    return s;
  }
  test::TempFolder folder_;
  const std::string adamw_ = kGoodFolder + "/megatron-optimizer-adamw.so";
};

TEST_F(Scan, TheFirstOfANameWins) {
  put("a/megatron-optimizer-adamw.so");
  put("b/megatron-optimizer-adamw.so");
  put("own.so");
  EXPECT_THAT(rows(), ElementsAre("optimizer/adamw available a/megatron-optimizer-adamw.so",
                                  "optimizer/adamw shadowed b/megatron-optimizer-adamw.so: "
                                  "shadowed by a/megatron-optimizer-adamw.so"));
  // A file that the user names may have any name, and comes first.
  EXPECT_THAT(rows({"own.so"}),
              ElementsAre("optimizer/adamw available own.so",
                          "optimizer/adamw shadowed a/megatron-optimizer-adamw.so: shadowed by "
                          "own.so",
                          "optimizer/adamw shadowed b/megatron-optimizer-adamw.so: shadowed by "
                          "own.so"));
}

// Usable or not: a stale copy that gave way to a later one would be found by nobody.
TEST_F(Scan, ARefusedFileShadowsToo) {
  std::ofstream(folder_ / "a/megatron-optimizer-adamw.so");  // empty
  put("b/megatron-optimizer-adamw.so");
  EXPECT_THAT(rows(), ElementsAre("optimizer/adamw refused a/megatron-optimizer-adamw.so: not an "
                                  "ELF file: it is empty",
                                  "optimizer/adamw shadowed b/megatron-optimizer-adamw.so: "
                                  "shadowed by a/megatron-optimizer-adamw.so"));
}

TEST_F(Scan, TheNameOfTheFileMustBeThatOfTheNote) {
  put("a/megatron-optimizer-sgd.so");
  fs::create_symlink(adamw_, folder_ / "a/megatron-model-adamw.so");
  put("a/libadamw.so");
  put("a/megatron-adamw.so");
  fs::create_directory(folder_ / "a/deep");
  put("a/deep/megatron-optimizer-adamw.so");
  EXPECT_THAT(
      rows(),
      ElementsAre("model/adamw refused a/megatron-model-adamw.so: file name and note disagree: the "
                  "file name says model 'adamw', the note says optimizer 'adamw'",
                  "optimizer/sgd refused a/megatron-optimizer-sgd.so: file name and note disagree: "
                  "the file name says optimizer 'sgd', the note says optimizer 'adamw'"));
}

TEST_F(Scan, OneFileIsListedOnce) {
  put("a/megatron-optimizer-adamw.so");
  fs::create_symlink("../a/megatron-optimizer-adamw.so", folder_ / "b/megatron-optimizer-adamw.so");
  EXPECT_THAT(rows({"a/megatron-optimizer-adamw.so"}),
              ElementsAre("optimizer/adamw available a/megatron-optimizer-adamw.so"));
}

TEST_F(Scan, WhatIsNoFile) {
  fs::create_directory(folder_ / "a/megatron-model-folder.so");
  fs::create_symlink("nowhere", folder_ / "a/megatron-model-link.so");
  ASSERT_EQ(::mkfifo((folder_ / "a/megatron-model-pipe.so").c_str(), 0600), 0);
  EXPECT_THAT(rows(),
              ElementsAre("model/folder refused a/megatron-model-folder.so: not a file: it is a "
                          "folder, a device or a pipe",
                          "model/link refused a/megatron-model-link.so: the file cannot be opened: "
                          "the system says: No such file or directory",
                          "model/pipe refused a/megatron-model-pipe.so: not a file: it is a "
                          "folder, a device or a pipe"));
}

TEST_F(Scan, ABrokenFolderIsAWarning) {
  put("b/megatron-optimizer-adamw.so");
  const SearchPath search{{}, {{"/dev/null", ""}, {folder_ / "b", ""}, {folder_ / "absent", ""}}};
  const auto found = scan(search, this_host(), system_loader_environment());
  EXPECT_EQ(found.rows.size(), 1u);
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_EQ(
      found.warnings[0].message(),
      "cannot search /dev/null for plugins\n  the system says: Not a directory\n  fix: change "
      "its permissions, or take it out of the search path");
}

}  // namespace
}  // namespace megatron::plugin
