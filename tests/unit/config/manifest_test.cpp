// What the host learns before it has any plugin's schema.
#include "config/manifest.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/file.hpp"
#include "support/temp_folder.hpp"

namespace megatron::config {
namespace {

Option plugin(const char* default_value) {
  return option("plugin", MGT_OPTION_STRING, default_value, "");
}

TEST(Manifest, NamedPlugins) {
  const SectionSchema sections[] = {
      {.name = "train", .keys = Schema::of({option("steps", MGT_OPTION_INT, "1", "")})},
      {.name = "device", .keys = Schema::of({plugin("\"cpu\"")})},
      {.name = "model", .keys = Schema::of({plugin("").required()})},
      {.name = "tokenizer", .presence = Presence::optional, .keys = Schema::of({plugin("\"a\"")})},
      {.name = "data", .keys = Schema::of({plugin("")})},
      {.name = "parallel",
       .presence = Presence::repeated,
       .keys = Schema::of({plugin("").required()})},
  };
  struct {
    const char* manifest;
    std::vector<NamedPlugin> expected;
  } const cases[] = {
      {"", {{"device", 0, "cpu", {}}}},
      {"[tokenizer]\n", {{"device", 0, "cpu", {}}, {"tokenizer", 0, "a", {}}}},
      {"[device]\nplugin = 'cuda'\n[model]\nplugin = 'gpt'\n[train]\nplugin = 'x'\n",
       {{"device", 0, "cuda", {}}, {"model", 0, "gpt", {}}}},
      {"[[parallel]]\nplugin = 'data'\n[[parallel]]\n[[parallel]]\nplugin = 'tensor'\n",
       {{"device", 0, "cpu", {}}, {"parallel", 0, "data", {}}, {"parallel", 2, "tensor", {}}}},
      // Malformed sections are for resolve() to report.
      {"model = 3\nparallel = [1]\n[device]\nplugin = 3\n", {}},
  };
  const test::TempFolder folder;
  const std::string path = folder / "manifest.toml";
  for (const auto& c : cases) {
    ASSERT_TRUE(write_file(path, c.manifest).ok());
    const auto manifest = Manifest::load(path);
    ASSERT_TRUE(manifest.ok()) << manifest.status().message();
    EXPECT_EQ(named_plugins(*manifest, sections), c.expected) << c.manifest;
  }
}

TEST(Manifest, FilesAndFolder) {
  const test::TempFolder folder;
  const std::string top = folder / "top.toml", base = folder / "base.toml";
  ASSERT_TRUE(write_file(top, "include = ['base.toml']\n").ok());
  ASSERT_TRUE(write_file(base, "").ok());
  const auto manifest = Manifest::load(top);
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->files(), (std::vector<std::string>{top, base}));
  EXPECT_EQ(manifest->folder(), folder.path());
}

TEST(Manifest, IncludesOfIncludesAreCounted) {
  const test::TempFolder folder;
  // Each level includes the next one ten times: 10^4 files to read.
  for (int level = 0; level < 4; ++level) {
    std::string lines = "include = [";
    for (int i = 0; i < 10; ++i) lines += text("'", level + 1, ".toml', ");
    ASSERT_TRUE(write_file(text(folder.path(), "/", level, ".toml"), lines + "]\n").ok());
  }
  ASSERT_TRUE(write_file(folder / "4.toml", "").ok());
  const Status refused = Manifest::load(folder / "0.toml").status();
  EXPECT_TRUE(refused.message().starts_with(text(folder.path(), "/")));
  EXPECT_NE(refused.message().find("\n  the manifest has more than 4096 includes"),
            std::string_view::npos)
      << refused.message();
}

// A manifest that cannot be read tells which of the system's codes it was.
TEST(Manifest, CodeOfAnAbsentFile) {
  EXPECT_EQ(Manifest::load("/nowhere/experiment.toml").status().code(), Code::not_found);
}

}  // namespace
}  // namespace megatron::config
