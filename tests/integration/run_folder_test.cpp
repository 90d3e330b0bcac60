// The folder of a run: what is in it already, what it is called, who else uses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "integration/experiment.hpp"

namespace megatron::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RunFolder, DoesNotTouchARunUnlessAsked) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const std::string before = experiment.metrics() + experiment.checkpoint(5);
  const Outcome o = experiment.train(until(5));
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_EQ(o.err, text("error: '", experiment / "run",
                        "' already holds a run\n  its files would be replaced\n  fix: --resume "
                        "continues it, --overwrite starts anew, or choose another "
                        "train.output_dir\n"));
  EXPECT_TRUE(experiment.metrics() + experiment.checkpoint(5) == before);

  const Outcome anew = experiment.train(until(10, {"--overwrite"}));
  EXPECT_EQ(anew.exit_code, 0) << anew;
  Reference(10).expect_same(experiment);
  EXPECT_EQ(experiment.train({"--overwrite", "--resume"}).exit_code, 2);
}

TEST(RunFolder, SaysWhatAResumedRunTrainsOtherwise) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const Outcome o =
      experiment.train(until(10, {"--resume", "--set", "train.seed=99", "--set",
                                  "model.layernorm_epsilon=1", "--set", "train.log_interval=2"}));
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.err, HasSubstr("was written with:\n  train.train_iters = 10, was 5\n"
                               "  train.seed = 99, was 1234\n"
                               "  model.layernorm_epsilon = 1.0, was 1e-05\n"));
  EXPECT_THAT(o.err, testing::Not(HasSubstr("log_interval")));
}

Outcome check(const Experiment& experiment, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"check", "tiny.toml"});
  return host(std::move(arguments), experiment.folder());
}

TEST(Check, RefusesAStartThatRunRefuses) {
  const Experiment other, experiment;
  ASSERT_EQ(other.train(until(1)).exit_code, 0);
  const std::string load = text("checkpoint.load=", other / "run");
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--set", "checkpoint.load=nosuch"}, "there is no sound checkpoint in '"},
      {{"--set", "train.output_dir=/proc/x"}, "cannot create /proc/x\n"},
      {{"--set", load, "--set", "model.hidden_size=64"}, "  the run's model asks for f32["},
      {{"--set", load, "--set", "model.num_layers=3"}, "' has no tensor '"},
      {{"--set", load, "--set", "model.num_layers=1"}, "', for which the run has no place\n"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.says);
    const Outcome checked = check(experiment, c.arguments);
    EXPECT_EQ(checked.out, "");
    EXPECT_THAT(checked.err, HasSubstr(c.says));
    EXPECT_FALSE(fs::exists(experiment / "run")) << "check has changed something";
    const Outcome ran = experiment.train(c.arguments);
    EXPECT_EQ(checked.exit_code, ran.exit_code);
    EXPECT_EQ(checked.err, ran.err);
    fs::remove_all(experiment / "run");
  }
  EXPECT_EQ(check(experiment, {"--set", load}).exit_code, 0);
}

// How the run will be started is not known yet.
TEST(Check, OnlyWarnsOfARunInTheFolder) {
  const Experiment experiment;
  EXPECT_EQ(check(experiment, {}).err, "");
  ASSERT_EQ(experiment.train(until(1)).exit_code, 0);
  const Outcome o = check(experiment, {});
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.err, StartsWith(text("warning: '", experiment / "run",
                                     "' already holds a run\n  its files would be replaced\n")));
  EXPECT_THAT(o.out, HasSubstr("memory of a rank"));
}

// What is wrong with the new run must not cost the old one.
TEST(RunFolder, OverwriteLosesNothingToARunThatCannotBegin) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const std::string metrics = experiment.metrics();
  const std::string own = experiment / "run";
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--set", "checkpoint.load=nosuch"},
           {"--set", text("checkpoint.load=", own), "--set", "model.num_layers=3"},
           {"--set", "model.init_method_std=1e30"}}) {
    auto arguments = wrong;
    arguments.push_back("--overwrite");
    const Outcome o = experiment.train(until(5, arguments));
    EXPECT_NE(o.exit_code, 0) << o;
    EXPECT_EQ(experiment.newest_iteration(), 5) << o;
    EXPECT_EQ(experiment.metrics(), metrics) << o;
  }
  const Outcome o =
      experiment.train(until(3, {"--set", text("checkpoint.load=", own), "--overwrite"}));
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_EQ(experiment.newest_iteration(), 3);
}

TEST(RunFolder, TwoRunsInAFolderAtATime) {
  const Experiment experiment;
  Process first(experiment.command(until(kEndless)));
  ASSERT_TRUE(first.wait_for(" iteration        1/"));
  for (const char* flag : {"--resume", "--overwrite"}) {
    const Outcome second = experiment.train(until(3, {flag}));
    EXPECT_EQ(second.exit_code, 1) << second;
    EXPECT_THAT(second.err, HasSubstr("is in use by another run\n  process "));
  }
  first.send(SIGTERM);
  EXPECT_EQ(first.finish().exit_code, 130);
}

// A checkpoint's manifest tells where its values came from: whatever the names, it can be read.
TEST(RunFolder, NamesOfFoldersAndManifests) {
  const TempFolder folder;
  const auto in = [&](const std::string& name, const std::string& manifest) {
    fs::create_directories(folder / name);
    write_file(folder / (name + "/" + manifest), kTinyGpt);
    return run(host_command({"run", manifest, "--set", "train.train_iters=5"}, folder / name));
  };
  const std::string lines = "two\nlines", quotes = "a \"quoted\" # 'name'";
  for (const auto& name : {lines, quotes, std::string("grün"), std::string("\u009b31m")}) {
    const Outcome o = in(name, name + ".toml");
    ASSERT_EQ(o.exit_code, 0) << o;
    const Outcome generated =
        run(host_command({"generate", "run", "--prompt", "a", "--tokens", "2"}, folder / name));
    EXPECT_EQ(generated.exit_code, 0) << generated;
  }
  const std::string latin1 = "gr\xfcn";
  const Outcome of_manifest = in("plain", latin1 + ".toml");
  EXPECT_EQ(of_manifest.exit_code, 2) << of_manifest;
  EXPECT_THAT(of_manifest.err, HasSubstr("the file's name is not UTF-8"));
  const Outcome of_folder = in(latin1, "tiny.toml");
  EXPECT_EQ(of_folder.exit_code, 2) << of_folder;
  EXPECT_THAT(of_folder.err, HasSubstr("not UTF-8"));
}

TEST(RunFolder, WhatCannotBeOverwrittenIsSaid) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const std::string metrics = experiment / "run/metrics.jsonl";
  fs::remove(metrics);
  fs::create_directories(metrics + "/somebody's");
  const Outcome o = experiment.train(until(5, {"--overwrite"}));
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, HasSubstr(text("error: '", metrics, "' is not a file\n")));
  EXPECT_TRUE(fs::exists(metrics + "/somebody's"));
  EXPECT_EQ(experiment.newest_iteration(), 5) << "its checkpoints are there";
}

}  // namespace
}  // namespace megatron::test
