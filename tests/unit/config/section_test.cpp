// Read access: from the host, and from a plugin through the C table.
#include "config/section.hpp"

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "config/abi_config.hpp"
#include "config/resolve.hpp"
#include "megatron/host.hpp"
#include "support/temp_folder.hpp"

namespace megatron::config {
namespace {

class SectionTest : public testing::Test {
 protected:
  // [model] with two host keys and a plugin that has one option of every type.
  Section& load(const std::string& manifest_text) {
    const std::string path = folder_ / "section.toml";
    MGT_CHECK(write_file(path, manifest_text).ok());
    const Option options[] = {
        option("b", MGT_OPTION_BOOL, "true", ""),
        option("i", MGT_OPTION_INT, "7", "").at_most(10),
        option("f", MGT_OPTION_FLOAT, "0.5", ""),
        option("s", MGT_OPTION_STRING, "\"text\"", ""),
        option("p", MGT_OPTION_PATH, "\"/a/../b\"", ""),
        option("is", MGT_OPTION_INT_LIST, "[1, 2]", ""),
        option("fs", MGT_OPTION_FLOAT_LIST, "[1, 2.5]", ""),
        option("ss", MGT_OPTION_STRING_LIST, "[\"x\", \"\"]", ""),
        option("ps", MGT_OPTION_PATH_LIST, "[]", ""),
    };
    auto schema = Schema::from_abi("every", options, std::size(options));
    MGT_CHECK(schema.ok(), schema.status().message());
    const SectionSchema sections[] = {
        {.name = "model",
         .keys = Schema::of({option("plugin", MGT_OPTION_STRING, "\"every\"", ""),
                             option("limit", MGT_OPTION_INT, "", "")}),
         .plugins = {*schema}}};
    const auto manifest = Manifest::load(path);
    MGT_CHECK(manifest.ok(), manifest.status().message());
    EXPECT_EQ(named_plugins(*manifest, sections),
              (std::vector<NamedPlugin>{{"model", 0, "every", {}}}));
    auto resolved = resolve(*manifest, sections);
    MGT_CHECK(resolved.ok(), resolved.status().message());
    resolved_ = std::move(resolved).value();
    path_ = path;
    return resolved_.section("model");
  }
  const test::TempFolder folder_;
  Resolved resolved_;
  std::string path_;
};

TEST_F(SectionTest, HostReads) {
  const Section& model = load("[model]\ni = 3\n");
  EXPECT_EQ(model.plugin(), "every");
  EXPECT_EQ(model.get<bool>("b"), true);
  EXPECT_EQ(model.get<int64_t>("i"), 3);
  EXPECT_EQ(model.get<double>("f"), 0.5);
  EXPECT_EQ(model.get<std::string>("p"), "/b");
  EXPECT_EQ(model.get<std::vector<double>>("fs"), (std::vector<double>{1, 2.5}));
  EXPECT_FALSE(model.has("limit"));
  EXPECT_FALSE(model.has("nothing"));
  EXPECT_TRUE(model.has("i"));
  EXPECT_EQ(model.describe("i"), path_ + ":2:5: model.i = 3");
  EXPECT_EQ(model.describe("f"), "model.f = 0.5 (default)");
  EXPECT_EQ(model.describe("limit"), "model.limit = (not set) (default)");
  EXPECT_EQ(resolved_.find("optimizer"), nullptr);
}

TEST_F(SectionTest, HostBugsAreCaught) {
  const Section& model = load("");
  EXPECT_DEATH(model.get<bool>("nothing"), "\\[model\\] declares no key 'nothing'");
  EXPECT_DEATH(model.get<bool>("i"), "model.i is an integer and was read as another type");
  EXPECT_DEATH(model.get<int64_t>("limit"), "model.limit has no value");
  EXPECT_DEATH(resolved_.section("none"), "the configuration has no \\[none\\]");
}

// Through the facade that plugins use.
TEST_F(SectionTest, PluginReads) {
  const AbiConfig abi(load("[model]\nlimit = 1\n"));
  const Config config(abi.table());
  EXPECT_TRUE(config.boolean("b"));
  EXPECT_EQ(config.integer("i"), 7);
  EXPECT_EQ(config.number("f"), 0.5);
  EXPECT_EQ(config.string("s"), "text");
  EXPECT_EQ(config.string("p"), "/b");
  EXPECT_EQ(config.integers("is"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.numbers("fs"), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(config.strings("ss"), (std::vector<std::string>{"x", ""}));
  EXPECT_TRUE(config.strings("ps").empty());
}

TEST_F(SectionTest, PluginSeesItsOwnOptionsOnly) {
  const AbiConfig abi(load("[model]\nlimit = 1\n"));
  for (const std::string key : {"limit", "nothing"}) {
    mgt_config_value value;
    MGT_INIT(&value);
    const Status status = from_abi(abi.table()->get(abi.table()->context, to_abi(key), &value));
    EXPECT_EQ(status.code(), Code::not_found);
    EXPECT_EQ(status.message(),
              text("plugin 'every' asks for its option '", key, "'\n",
                   "  it does not declare this option; it declares 'b', 'i', 'f', 's', 'p', 'is', "
                   "'fs', 'ss', 'ps'\n",
                   "  fix: add the option to the plugin's MEGATRON_PLUGIN(...), or correct the "
                   "name"));
  }
}

// An older plugin's value struct ends early; nothing behind it may be written.
TEST_F(SectionTest, ValueStructOfAnOlderPlugin) {
  const AbiConfig abi(load(""));
  mgt_config_value value;
  MGT_INIT(&value);
  value.struct_size = offsetof(mgt_config_value, s);
  value.count = 4711;
  ASSERT_EQ(abi.table()->get(abi.table()->context, to_abi("is"), &value), nullptr);
  EXPECT_EQ(value.type, MGT_OPTION_INT_LIST);
  EXPECT_EQ(value.struct_size, offsetof(mgt_config_value, s));
  EXPECT_EQ(value.count, 4711u);
}

TEST_F(SectionTest, Derive) {
  Section& model = load("[model]\nf = 1\n");
  ASSERT_TRUE(model.derive("limit", int64_t{42}, "from the tokenizer").ok());
  EXPECT_EQ(model.get<int64_t>("limit"), 42);
  EXPECT_EQ(model.describe("limit"), "model.limit = 42 (derived from the tokenizer)");
  EXPECT_TRUE(model.derive("f", 1.0, "from the tokenizer").ok());  // what the user says anyway
  EXPECT_EQ(model.describe("f"), path_ + ":2:5: model.f = 1.0");
  EXPECT_EQ(model.derive("f", 2.0, "from the tokenizer").message(),
            path_ +
                ":2:5: model.f = 1.0\n"
                "  the value from the tokenizer is 2.0\n"
                "  fix: remove the key 'f'; it is derived from the tokenizer");
  EXPECT_EQ(model.derive("i", int64_t{11}, "from the mesh").message(),
            "model.i = 11 (derived from the mesh) is out of range\n"
            "  'i' must be at most 10\n"
            "  fix: change what it is derived from");
}

}  // namespace
}  // namespace megatron::config
