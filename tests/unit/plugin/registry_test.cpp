// Loading: each plugin of tests/plugin/bad is wrong in one way, and bad_plugins.txt has the words
// that a user reads about it.
#include "plugin/registry.hpp"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.hpp"
#include "folders.hpp"
#include "plugin/kind.hpp"
#include "support/serial_services.hpp"
#include "support/temp_folder.hpp"

namespace megatron::plugin {
namespace {

test::SerialServices& services() {
  static test::SerialServices instance;
  return instance;
}

std::string replaced(std::string in, std::string_view from, std::string_view to) {
  for (size_t at = in.find(from); at != std::string::npos; at = in.find(from, at + to.size()))
    in.replace(at, from.size(), to);
  return in;
}

// BAD is the folder.
std::string readable(std::string_view message) {
  return replaced(std::string(message), kBadFolder, "BAD");
}

TEST(Registry, BadPlugins) {
  Registry registry(search(kBadFolder), services());
  std::string out;
  for (const PluginRow& row : registry.rows()) {
    const auto loaded = registry.load(MGT_KIND_OPTIMIZER, row.name);
    EXPECT_TRUE(loaded.ok() || loaded.status().code() == kUnusable) << row.name;
    out += text(out.empty() ? "" : "\n", "=== ", row.name, ": ", state_name(row.state),
                row.reason.empty() ? "" : ", ", row.reason, "\n");
    out += text(loaded.ok() ? "loads" : readable(loaded.status().message()), "\n");
  }
  const auto golden = read_file(MEGATRON_SOURCE_DIR "/tests/unit/plugin/bad_plugins.txt");
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  EXPECT_EQ(out, *golden);
}

// Foreign code runs when a plugin is loaded, and not before.
TEST(Registry, ListingRunsNoForeignCode) {
  const test::TempFolder folder;
  ::setenv("MEGATRON_TEST_WITNESS", (folder / "witness").c_str(), 1);
  std::filesystem::copy(kBadFolder + "/megatron-optimizer-constructor.so", folder.path());
  Registry registry(search(folder.path()), services());
  ASSERT_EQ(registry.rows().size(), 1u);
  EXPECT_EQ(registry.rows()[0].state, State::available);
  EXPECT_FALSE(std::filesystem::exists(folder / "witness"));
  EXPECT_TRUE(registry.load(MGT_KIND_OPTIMIZER, "constructor").ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "witness"));
  ::unsetenv("MEGATRON_TEST_WITNESS");
}

class GoodPlugin : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(All, GoodPlugin, testing::ValuesIn(targets()),
                         [](const auto& row) { return row.param.kind + "_" + row.param.name; });
TEST_P(GoodPlugin, LoadsOnceAndSaysWhatItIs) {
  Registry registry(search(kGoodFolder), services());
  const mgt_kind kind = parse_kind(GetParam().kind).value();
  const auto first = registry.load(kind, GetParam().name);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->kind(), kind);
  EXPECT_EQ(first->name(), GetParam().name);
  EXPECT_NE(first->description(), "");
  EXPECT_EQ(first->path(), GetParam().path());
  EXPECT_EQ(registry.load(kind, GetParam().name)->options(), first->options());
}

TEST(Registry, NotFound) {
  Registry registry(search(kGoodFolder), services());
  const auto message = [&](mgt_kind kind, const char* name) {
    const auto loaded = registry.load(kind, name);
    EXPECT_EQ(loaded.status().code(), kUnusable);
    return replaced(std::string(loaded.status().message()), kGoodFolder, "GOOD");
  };
  const std::string searched = "\n  searched, in this order: GOOD (a test)\n  fix: ";
  EXPECT_EQ(message(MGT_KIND_OPTIMIZER, "adanw"),
            "optimizer plugin 'adanw' not found" + searched + "did you mean 'adamw'?");
  EXPECT_EQ(message(MGT_KIND_MODEL, "adamw"),
            "model plugin 'adamw' not found" + searched +
                "'adamw' is the name of a plugin of another kind: optimizer; name it there");
  EXPECT_EQ(message(MGT_KIND_COMM, "nccl"),
            "comm plugin 'nccl' not found" + searched +
                "put megatron-comm-nccl.so into one of these folders, or name its folder with "
                "--plugin-path");
}

}  // namespace
}  // namespace megatron::plugin
