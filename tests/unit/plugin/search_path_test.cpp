// Where plugins are looked for, and in which order.
#include "plugin/search_path.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "support/temp_folder.hpp"

namespace megatron::plugin {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class Places : public testing::Test {
 protected:
  Places() {
    environment_.executable_folder = "/opt/host/bin";
    environment_.relative_libdir = "../lib/debian";
    environment_.install_libdir = "/usr/local/lib/debian";
    for (const char* name : {"a", "b"}) fs::create_directory(folder_ / name);
  }
  // One "path (origin)" a folder; DIR is the test's.
  std::vector<std::string> folders(const std::vector<std::string>& named = {}) const {
    const auto search = make_search_path({}, named, environment_);
    EXPECT_TRUE(search.ok()) << search.status().message();
    std::vector<std::string> out;
    for (const SearchFolder& f : search->folders) {
      std::string path = f.path;
      if (path.starts_with(folder_.path())) path.replace(0, folder_.path().size(), "DIR");
      out.push_back(text(path, " (", f.origin, ")"));
    }
    return out;
  }
  std::string error(const std::vector<std::string>& named = {}) const {
    return std::string(make_search_path({}, named, environment_).status().message());
  }
  test::TempFolder folder_;
  SearchEnvironment environment_;
};

TEST_F(Places, InOrder) {
  environment_.plugin_path = text(folder_ / "b", "::", "/opt/absent");
  environment_.xdg_data_home = "/data";
  environment_.home = "/home/user";
  EXPECT_THAT(folders({folder_ / "a"}),
              ElementsAre("DIR/a (--plugin-path)", "DIR/b (MEGATRON_PLUGIN_PATH)",
                          "/opt/absent (MEGATRON_PLUGIN_PATH)",
                          "/opt/host/lib/megatron/plugins (beside the executable)",
                          "/opt/host/lib/debian/megatron/plugins (beside the executable)",
                          "/usr/local/lib/debian/megatron/plugins (installed)",
                          "/data/megatron/plugins (XDG_DATA_HOME)"));
}

TEST_F(Places, OfTheUser) {
  environment_.executable_folder = "";  // no /proc
  const std::string installed = "/usr/local/lib/debian/megatron/plugins (installed)";
  EXPECT_THAT(folders(), ElementsAre(installed));
  environment_.home = "/home/user";
  const std::string home = "/home/user/.local/share/megatron/plugins (the user's data folder)";
  EXPECT_THAT(folders(), ElementsAre(installed, home));
  environment_.xdg_data_home = "relative";  // to be ignored
  EXPECT_THAT(folders(), ElementsAre(installed, home));
  environment_.home = "relative";
  EXPECT_THAT(folders(), ElementsAre(installed));
}

TEST_F(Places, OneFolderIsNamedOnce) {
  environment_.plugin_path_only = "1";
  fs::create_directory_symlink(folder_ / "a", folder_ / "link");
  environment_.plugin_path = text(folder_ / "link", ":", folder_ / "b/../a", ":", folder_ / "b/");
  EXPECT_THAT(folders({folder_ / "a"}),
              ElementsAre("DIR/a (--plugin-path)", "DIR/b (MEGATRON_PLUGIN_PATH)"));
}

TEST_F(Places, Only) {
  environment_.plugin_path_only = "1";
  EXPECT_THAT(folders(), ElementsAre());
  EXPECT_EQ(describe(SearchPath{}), "no folder");
  for (const char* off : {"", "0"}) {
    environment_.plugin_path_only = off;
    EXPECT_EQ(folders().size(), 3u);
  }
  environment_.plugin_path_only = "yes";
  EXPECT_EQ(error(),
            "MEGATRON_PLUGIN_PATH_ONLY is 'yes'\n  it is a switch: 1 (on), 0 or unset (off)\n"
            "  fix: set MEGATRON_PLUGIN_PATH_ONLY=1, or unset it");
}

TEST_F(Places, Errors) {
  EXPECT_EQ(error({folder_ / "absent"}),
            text("--plugin-path ", folder_ / "absent",
                 " cannot be searched\n  the folder does not exist\n  fix: name the folder that "
                 "holds the megatron-<kind>-<name>.so files"));
  EXPECT_EQ(error({"/dev/null"}),
            "--plugin-path /dev/null cannot be searched\n  it is not a folder\n  fix: name the "
            "folder that holds the megatron-<kind>-<name>.so files");
  environment_.plugin_path = "/opt:relative";
  EXPECT_EQ(error(),
            "MEGATRON_PLUGIN_PATH holds the relative folder 'relative'\n  it would mean another "
            "folder wherever the command is started\n  fix: write its absolute path");
}

}  // namespace
}  // namespace megatron::plugin
