// Manifests in, printed configuration or error text out; the cases are in cases/*.txt.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>

#include "base/file.hpp"
#include "case_file.hpp"
#include "config/resolve.hpp"
#include "support/temp_folder.hpp"

namespace megatron::config {
namespace {

namespace fs = std::filesystem;

constexpr mgt_str kPrecisions[] = {{"fp32", 4}, {"bf16", 4}, {"fp16", 4}};

Schema plugin_schema(const char* name, const std::vector<Option>& options) {
  auto schema = Schema::from_abi(name, options.data(), options.size());
  EXPECT_TRUE(schema.ok()) << schema.status().message();
  return std::move(schema).value();
}

Option plugin_key(const char* default_value) {
  return option("plugin", MGT_OPTION_STRING, default_value, "Name of the plugin.");
}

// The schemas that all cases share.
std::vector<SectionSchema> schemas() {
  const Schema adamw = plugin_schema(
      "adamw",
      {option("beta1", MGT_OPTION_FLOAT, "0.9", "Decay of the mean.").at_least(0).below(1),
       option("betas", MGT_OPTION_FLOAT_LIST, "[]", "Several decays.").above(0).at_most(1)});
  const Schema sgd = plugin_schema("sgd", {option("momentum", MGT_OPTION_FLOAT, "0.0", "")});
  const Schema clash = plugin_schema("clash", {option("lr", MGT_OPTION_FLOAT, "1.0", "")});
  const Schema gpt = plugin_schema(
      "gpt", {option("data_path", MGT_OPTION_PATH, "", "Prefix of the files.").required(),
              option("cache", MGT_OPTION_PATH, "\"cache\"", "Folder of the index."),
              option("blend", MGT_OPTION_PATH_LIST, "", "More prefixes."),
              option("weights", MGT_OPTION_INT_LIST, "[1, 2]", "Of the blend.").at_least(1)});
  const Schema tensor = plugin_schema(
      "tensor", {option("size", MGT_OPTION_INT, "", "Ranks.").required().at_least(1)});
  const Schema data = plugin_schema("data", {option("size", MGT_OPTION_INT, "1", "Ranks.")});
  return {
      {.name = "train",
       .keys = Schema::of(
           {option("steps", MGT_OPTION_INT, "", "Optimizer steps.").required().at_least(1),
            option("name", MGT_OPTION_STRING, "\"run\"", "Of the run."),
            option("precision", MGT_OPTION_STRING, "\"fp32\"", "Of the weights.")
                .one_of(kPrecisions),
            option("resume", MGT_OPTION_BOOL, "false", "From the last checkpoint."),
            option("grad_clip", MGT_OPTION_FLOAT, "", "Largest norm; none when left out.").above(0),
            option("seed", MGT_OPTION_INT, "0", "Of everything random.")})},
      {.name = "optimizer",
       .keys = Schema::of({plugin_key("\"adamw\""),
                           option("lr", MGT_OPTION_FLOAT, "0.001", "Rate.").above(0).at_most(1)}),
       .plugins = {adamw, sgd, clash}},
      {.name = "data",
       .presence = Presence::optional,
       .keys = Schema::of({plugin_key("").required()}),
       .plugins = {gpt}},
      {.name = "parallel",
       .presence = Presence::repeated,
       .keys = Schema::of({plugin_key("").required()}),
       .plugins = {tensor, data}},
  };
}

std::string replaced(std::string s, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size())
    s.replace(at, from.size(), to);
  return s;
}

std::string squeezed(const std::string& s) {
  std::string out;
  for (const char c : s)
    if (c != ' ' || !out.ends_with(' ')) out += c;
  return out;
}

// No case has a '#' inside of a string.
std::string without_comments(const std::string& s) {
  std::string out;
  bool comment = false;
  for (const char c : s) {
    comment = c == '#' || (comment && c != '\n');
    if (!comment && c != ' ') out += c;
  }
  return out;
}

// A folder of its own as the current directory, so that messages show the names as written.
class InFolder {
 public:
  InFolder() : before_(fs::current_path()) { fs::current_path(folder_.path()); }
  ~InFolder() { fs::current_path(before_); }
  const std::string& path() const { return folder_.path(); }

 private:
  fs::path before_;
  test::TempFolder folder_;
};

std::string outcome(const std::string& path, const std::vector<std::string>& sets, bool& failed) {
  failed = true;
  const auto manifest = Manifest::load(path, sets);
  if (!manifest.ok()) return std::string(manifest.status().message());
  const auto resolved = resolve(*manifest, schemas());
  if (!resolved.ok()) return std::string(resolved.status().message());
  failed = false;
  return print_config(*resolved);
}

class CasesTest : public testing::TestWithParam<Case> {};

TEST_P(CasesTest, TextInTextOut) {
  const Case& c = GetParam();
  const InFolder folder;
  for (const auto& [name, content] : c.files) {
    if (name.find('/') != std::string::npos) fs::create_directories(fs::path(name).parent_path());
    ASSERT_TRUE(write_file(name, content).ok());
  }
  const std::string path = c.files.empty() ? "experiment.toml" : c.files.front().first;
  bool failed = false;
  std::string out = replaced(outcome(path, c.sets, failed), folder.path(), "DIR");
  if (!out.ends_with('\n')) out += '\n';
  EXPECT_EQ(failed, c.expects_error);
  // The length of DIR moves the columns.
  const bool moved = c.expected.find("DIR") != std::string::npos;
  EXPECT_EQ(moved ? squeezed(out) : out, moved ? squeezed(c.expected) : c.expected);

  // What was printed is a manifest of the same values, but for where they come from.
  if (failed) return;
  ASSERT_TRUE(write_file("printed.toml", replaced(out, "DIR", folder.path())).ok());
  const std::string again = replaced(outcome("printed.toml", {}, failed), folder.path(), "DIR");
  ASSERT_FALSE(failed) << again;
  EXPECT_EQ(without_comments(again), without_comments(out));
}

std::string test_name(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char c : info.param.name)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Config, CasesTest,
                         testing::ValuesIn(read_cases(MEGATRON_SOURCE_DIR
                                                      "/tests/unit/config/cases")),
                         test_name);

}  // namespace
}  // namespace megatron::config
