// The commands that tell about plugins and configurations, and where the host finds its plugins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "integration/experiment.hpp"

namespace megatron::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::HasSubstr;
using testing::StartsWith;

std::string file_of(std::string_view kind, std::string_view name) {
  return text("/megatron-", kind, "-", name, ".so");
}

std::string golden(std::string_view name) {
  return read_file(text(MEGATRON_SOURCE_DIR, "/tests/integration/golden/", name));
}

// ---- list-plugins

// One plugin for each thing that a listing can say.
class Listing : public testing::Test {
 protected:
  Listing() {
    fs::create_directories(first_);
    fs::create_directories(second_);
    fs::copy(kPlugins + file_of("optimizer", "adamw"), first_);
    fs::copy(kPlugins + file_of("optimizer", "adamw"), second_);
    for (const char* bad : {"abi_too_new", "library_absent", "no_note"})
      fs::copy(kBadPlugins + file_of("optimizer", bad), first_);
    write_file(first_ + file_of("model", "text"), "#!/bin/sh\n");
    write_file(first_ + "/libunrelated.so", "");
  }
  Outcome list(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "list-plugins");
    Command command = host_command(std::move(arguments));
    command.environment["MEGATRON_PLUGIN_PATH"] = first_ + ":" + second_;
    command.environment["MEGATRON_PLUGIN_PATH_ONLY"] = "1";
    Outcome o = run(command);
    EXPECT_EQ(o.exit_code, 0) << o;
    EXPECT_EQ(o.err, "");
    o.out = replaced(replaced(o.out, first_, "FIRST"), second_, "SECOND");
    return o;
  }
  TempFolder folder_;
  std::string first_ = folder_ / "first", second_ = folder_ / "second";
};

TEST_F(Listing, Table) { EXPECT_EQ(list({}).out, golden("list_plugins.txt")); }

TEST_F(Listing, NamesThatWouldCommandATerminal) {
  write_file(first_ + "/megatron-model-a\n\x1b[2Jb.so", "");
  const std::string out = list({"--kind", "model"}).out;
  EXPECT_THAT(out, HasSubstr(R"(FIRST/megatron-model-a\n\x1b[2Jb.so)"));
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 5);  // a head, two plugins and why not
}

TEST_F(Listing, Json) {
  const auto json = ordered_json::parse(list({"--json", "--kind", "optimizer"}).out);
  std::string rows;
  for (auto row : json.at("plugins")) {
    EXPECT_EQ(row.erase("compiler"), 1u);  // may be another one tomorrow
    rows += row.dump() + "\n";
  }
  EXPECT_EQ(rows, golden("list_plugins.jsonl"));

  EXPECT_EQ(json.at("searched").dump(), R"([{"path":"FIRST","origin":"MEGATRON_PLUGIN_PATH"},)"
                                        R"({"path":"SECOND","origin":"MEGATRON_PLUGIN_PATH"}])");
}

TEST_F(Listing, NothingOfAKind) {
  EXPECT_EQ(list({"--kind", "comm"}).out,
            "no comm plugins; searched, in this order: FIRST (MEGATRON_PLUGIN_PATH), SECOND "
            "(MEGATRON_PLUGIN_PATH)\n");
}

// ---- every plugin of the build

struct Shipped {
  std::string kind, name;
  std::string file() const { return file_of(kind, name); }
  std::string id() const { return text(kind, "/", name); }
};
void PrintTo(const Shipped& plugin, std::ostream* out) { *out << plugin.id(); }

std::vector<Shipped> shipped() {
  std::vector<Shipped> out;
  for (std::string_view rest = MEGATRON_PLUGIN_TARGETS; !rest.empty();) {
    std::string_view target = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), target.size() + 1));
    target.remove_prefix(std::string_view("megatron-").size());
    const size_t dash = target.find('-');
    out.push_back({std::string(target.substr(0, dash)), std::string(target.substr(dash + 1))});
  }
  return out;
}

class ShippedPlugin : public testing::TestWithParam<Shipped> {};
INSTANTIATE_TEST_SUITE_P(All, ShippedPlugin, testing::ValuesIn(shipped()),
                         [](const auto& row) { return row.param.kind + "_" + row.param.name; });

TEST_P(ShippedPlugin, DescribesItself) {
  const Shipped& plugin = GetParam();
  const Outcome o = host({"describe-plugin", plugin.id()});
  ASSERT_EQ(o.exit_code, 0) << o;
  EXPECT_EQ(o.err, "");
  EXPECT_THAT(o.out, testing::ContainsRegex(text("^", plugin.id(), " [0-9.]+ \\(ABI 0\\.1, ")));
  EXPECT_THAT(o.out, HasSubstr(text("\n", kPlugins, plugin.file(), "\n")));

  const auto json = ordered_json::parse(host({"describe-plugin", plugin.id(), "--json"}).out);
  EXPECT_EQ(json.at("kind"), plugin.kind);
  EXPECT_EQ(json.at("name"), plugin.name);
  EXPECT_EQ(json.at("path"), kPlugins + plugin.file());
  EXPECT_NE(json.at("description"), "");
  // Plugins of this tree are released with the host.
  const auto version = json.at("version").get<std::string>();
  EXPECT_THAT(host({"--version"}).out, StartsWith(text("megatron-host ", version, " ")));
  for (const auto& option : json.at("options")) {
    EXPECT_THAT(o.out, HasSubstr(text("\n", option.at("key").get<std::string>(), " ")));
    EXPECT_NE(option.at("doc"), "") << option;
    EXPECT_TRUE(!option.at("required") || option.at("default").is_null()) << option;
  }
}

// "plugins/models/gpt": the folder of a kind has its plural, where the word has one.
std::string readme_of(const Shipped& plugin) {
  const bool plural = plugin.kind != "parallel" && plugin.kind != "comm";
  return text(MEGATRON_SOURCE_DIR, "/plugins/", plugin.kind, plural ? "s" : "", "/", plugin.name,
              "/README.md");
}

TEST_P(ShippedPlugin, HasAReadmeWithItsOptionsAndAnExample) {
  const Shipped& plugin = GetParam();
  const std::string command = text("describe-plugin ", plugin.id(), " --markdown");
  const Outcome o = host({"describe-plugin", plugin.id(), "--markdown"});
  ASSERT_EQ(o.exit_code, 0) << o;
  const std::string readme = read_file(readme_of(plugin));
  EXPECT_THAT(readme, StartsWith(text("# ", plugin.id(), "\n")));
  EXPECT_THAT(readme, HasSubstr(text("\nplugin = \"", plugin.name, "\"\n")));
  // The table ends where the file or a paragraph ends: no row may be left over.
  EXPECT_THAT(readme + "\n", HasSubstr(text("\n## Options\n\nThe output of `megatron-host ",
                                            command, "`:\n\n", o.out, "\n")));
}

TEST(DescribePlugin, UnknownNames) {
  struct Case {
    const char* name;
    const char* fix;
    int code;
  };
  for (const auto& [name, fix, code] :
       {Case{"adanw", "did you mean 'adamw'?", 3}, Case{"model/gtp", "did you mean 'gpt'?", 3},
        Case{"model/adamw",
             "'adamw' is the name of a plugin of another kind: optimizer; name it there", 3},
        Case{"zzzzzz",
             "put megatron-<kind>-zzzzzz.so into one of these folders, or name its folder with "
             "--plugin-path",
             3},
        Case{"modle/gpt", "did you mean 'model'?", 2}}) {
    const Outcome o = host({"describe-plugin", name});
    EXPECT_EQ(o.exit_code, code) << o;
    EXPECT_THAT(o.err, testing::EndsWith(text("\n  fix: ", fix, "\n")));
  }
}

// ---- places

std::set<std::string> available(const std::string& program, const std::string& folder) {
  const Outcome o = run(host_command({"list-plugins", "--json"}, folder, program));
  EXPECT_EQ(o.exit_code, 0) << o;
  std::set<std::string> out;
  const auto json = ordered_json::parse(o.out);
  for (const auto& row : json.at("plugins"))
    if (row.at("state") == "available") out.insert(row.at("path").get<std::string>());
  return out;
}

// The host under `prefix` takes its own plugins, and trains, from a folder that knows neither.
void expect_at_home(const std::string& program, const std::string& plugins) {
  const Experiment experiment;
  std::set<std::string> expected;
  for (const Shipped& plugin : shipped()) expected.insert(plugins + plugin.file());
  EXPECT_EQ(available(program, experiment.folder()), expected);
  const Outcome o = run(host_command(
      {"run", experiment / "tiny.toml", "--set", "train.train_iters=1"}, "/", program));
  EXPECT_EQ(o.exit_code, 0) << o;
}

TEST(Places, AnotherFolder) { expect_at_home(kHost, kPlugins); }

TEST(Places, MovedBuildTree) {
  const TempFolder moved;
  fs::copy(MEGATRON_BINARY_DIR "/bin", moved / "bin");
  fs::copy(MEGATRON_BINARY_DIR "/lib", moved / "lib", fs::copy_options::recursive);
  expect_at_home(moved / "bin/megatron-host", moved / "lib/megatron/plugins");

  fs::create_symlink(moved / "bin/megatron-host", moved / "link");
  expect_at_home(moved / "link", moved / "lib/megatron/plugins");
}

TEST(Places, Installation) {
  const TempFolder prefix;
  const Outcome o =
      run({.argv = {MEGATRON_CMAKE, "--install", MEGATRON_BINARY_DIR, "--prefix", prefix.path()},
           .environment = {}});
  ASSERT_EQ(o.exit_code, 0) << o;
  expect_at_home(prefix / MEGATRON_INSTALL_BINDIR "/megatron-host",
                 prefix / MEGATRON_INSTALL_LIBDIR "/megatron/plugins");
}

// ---- --print-config

// Without the comments, which tell where a value came from.
std::string values(const std::string& config) {
  std::string out;
  for (size_t at = 0; at < config.size();) {
    const size_t end = config.find('\n', at);
    std::string line = config.substr(at, end - at);
    at = end + 1;
    line.resize(line.find("  # ") == std::string::npos ? line.size() : line.find("  # "));
    line.resize(line.find_last_not_of(' ') + 1);
    if (!line.starts_with("#")) out += line + "\n";
  }
  return out;
}

TEST(PrintConfig, Quickstart) {
  const std::string example = MEGATRON_SOURCE_DIR "/examples/gpt-quickstart.toml";
  const Outcome printed = host({"run", example, "--print-config"});
  ASSERT_EQ(printed.exit_code, 0) << printed;
  EXPECT_EQ(printed.err, "");
  // Aligned comments move with the length of the source folder's path.
  const auto squeezed = [](std::string s) {
    for (size_t at; (at = s.find("  ")) != std::string::npos;) s.erase(at, 1);
    return s;
  };
  EXPECT_EQ(squeezed(replaced(printed.out, MEGATRON_SOURCE_DIR, "SOURCE")),
            squeezed(golden("quickstart_config.toml")));

  const TempFolder folder;
  write_file(folder / "again.toml", printed.out);
  const Outcome again = host({"run", folder / "again.toml", "--print-config"}, "/");
  ASSERT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(values(again.out), values(printed.out));
}

// A checkpoint's config.toml is such an output: what it trains is the same.
TEST(PrintConfig, OfACheckpointTrainsTheSame) {
  const Experiment one, other;
  ASSERT_EQ(one.train(until(3)).exit_code, 0);
  std::string config = read_file(one.checkpoint_folder(3) + "/config.toml");
  config = replaced(config, one.folder(), other.folder());
  write_file(other / "tiny.toml", config);
  const Outcome o = other.train();
  ASSERT_EQ(o.exit_code, 0) << o;
  EXPECT_EQ(other.metrics(), one.metrics());
  EXPECT_TRUE(other.checkpoint(3) == one.checkpoint(3));
}

// ---- the rest of the command line

TEST(CommandLine, HelpAndVersion) {
  EXPECT_EQ(host({"--version"}).out, "megatron-host 0.1.0 (plugin ABI 0.1)\n");
  for (const char* command :
       {"check", "describe-plugin", "generate", "graph", "list-plugins", "preprocess", "run"}) {
    const Outcome o = host({command, "--help"});
    EXPECT_EQ(o.exit_code, 0) << o;
    EXPECT_THAT(o.out, HasSubstr(text("Usage: megatron-host ", command)));
    EXPECT_THAT(host({"--help"}).out, HasSubstr(text("\n  ", command, " ")));
  }
}

TEST(CommandLine, Environment) {
  const auto complaint = [](const char* name, const char* value) {
    Command command = host_command({"list-plugins"});
    command.environment[name] = value;
    const Outcome o = run(command);
    EXPECT_EQ(o.exit_code, 2) << o;
    return o.err;
  };
  EXPECT_EQ(complaint("MEGATRON_PLUGIN_PATH", "plugins"),
            "error: MEGATRON_PLUGIN_PATH holds the relative folder 'plugins'\n"
            "  it would mean another folder wherever the command is started\n"
            "  fix: write its absolute path\n");
  EXPECT_EQ(complaint("MEGATRON_PLUGIN_PATH_ONLY", "yes"),
            "error: MEGATRON_PLUGIN_PATH_ONLY is 'yes'\n"
            "  it is a switch: 1 (on), 0 or unset (off)\n"
            "  fix: set MEGATRON_PLUGIN_PATH_ONLY=1, or unset it\n");
}

TEST(CommandLine, ACommandOfACommand) {
  EXPECT_EQ(host({"graph"}).err,
            "error: no command given\n  known: dump\n  fix: see `megatron-host graph --help`\n");
  EXPECT_EQ(host({"graph", "dmp"}).err,
            "error: unknown command 'dmp'\n  known: dump\n  fix: did you mean 'dump'?\n");
  EXPECT_EQ(host({"graph", "dump"}).err,
            "error: wrong command line for `megatron-host graph dump`\n  manifest is required\n"
            "  fix: see `megatron-host graph dump --help`\n");
}

TEST(CommandLine, NumberOfRanks) {
  for (const char* command : {"run", "check"}) {
    for (const char* ranks : {"0", "100000000000000000000"}) {
      const Outcome o = host({command, "absent.toml", "--ranks", ranks});
      EXPECT_EQ(o.exit_code, 2) << o;
      EXPECT_EQ(o.err, text("error: --ranks ", ranks,
                            " is out of range\n  it must be an integer "
                            "from 1 to 1048576\n  fix: see `megatron-host ",
                            command, " --help`\n"));
    }
  }
}

// A full disk must not look like success.
TEST(CommandLine, OutputThatCannotBeWritten) {
  Command command =
      host_command({"-c", "exec \"$0\" list-plugins > /dev/full", kHost}, "", "/bin/sh");
  const Outcome o = run(command);
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_EQ(o.err,
            "error: the output is incomplete\n  standard output cannot be written\n"
            "  fix: check its disk or its pipe\n");
}

}  // namespace
}  // namespace megatron::test
