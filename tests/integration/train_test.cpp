// Training as a user sees it. "The same" means: the bits of weights, optimizer states and losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "integration/experiment.hpp"

namespace megatron::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const Reference& twenty_steps() {
  static const Reference reference(20);
  return reference;
}

TEST(Train, TwiceIsTheSame) {
  const Experiment again;
  const Outcome o = again.train();
  ASSERT_EQ(o.exit_code, 0) << o;
  twenty_steps().expect_same(again);
}

// A comparison of runs proves nothing unless it can tell runs apart.
TEST(Train, AnotherSeedIsNotTheSame) {
  const Experiment one, other;
  ASSERT_EQ(one.train(until(2)).exit_code, 0);
  ASSERT_EQ(other.train(until(2, {"--set", "train.seed=5"})).exit_code, 0);
  EXPECT_NE(one.metrics(), other.metrics());
  EXPECT_FALSE(one.checkpoint(2) == other.checkpoint(2));
}

TEST(Train, PrintsWhatTheLogLevelAsksFor) {
  const Experiment experiment;
  EXPECT_THAT(experiment.train(until(1)).err, HasSubstr(" parameters"));
  const Outcome quiet = experiment.train(until(1, {"--overwrite", "--log-level", "warning"}));
  EXPECT_EQ(quiet.exit_code, 0) << quiet;
  EXPECT_EQ(quiet.err, "");
  const Outcome silent = experiment.train(until(1, {"--log-level", "off"}));  // refused: it exists
  EXPECT_NE(silent.exit_code, 0);
  EXPECT_EQ(silent.err, "");
  const Outcome wrong = experiment.train(until(1, {"--overwrite", "--log-level", "warn"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err,
            "error: unknown log level 'warn'\n  levels: trace, debug, info, warning, error, off\n"
            "  fix: use one of them\n  while reading --log-level\n");
}

TEST(Train, ItLearns) {
  const Experiment experiment;
  const Outcome o = experiment.train(until(60, {"--set", "optimizer.lr_decay_iters=60"}));
  ASSERT_EQ(o.exit_code, 0) << o;
  const auto loss_at = [&](int64_t iteration) {
    const std::string key = text(" validation loss at iteration ", iteration, " | lm loss value: ");
    const size_t at = o.out.find(key);
    return at == std::string::npos ? -1 : std::stod(o.out.substr(at + key.size()));
  };
  EXPECT_NEAR(loss_at(0), 5.5, 0.1) << o;  // ln 257
  EXPECT_LT(loss_at(60), loss_at(0) - 0.5) << o;
}

class Threads : public testing::TestWithParam<int> {};
TEST_P(Threads, AnyNumberIsTheSame) {
  const Experiment experiment;
  const Outcome o = experiment.train({"--set", text("train.num_threads=", GetParam())});
  ASSERT_EQ(o.exit_code, 0) << o;
  twenty_steps().expect_same(experiment);
}
INSTANTIATE_TEST_SUITE_P(Train, Threads, testing::Values(1, 3), testing::PrintToStringParamName());

// ---- 10 steps, resume, 10 steps

// That it is longer is all that a resumed run has to say.
void expect_only_longer(const Outcome& o) {
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.err, testing::ContainsRegex(
                         "was written with:\n  train.train_iters = [0-9]+, was [0-9]+\ndevice: "));
  EXPECT_EQ(o.err.find("warning"), o.err.rfind("warning")) << o;
}

struct Damage {
  const char* name;
  void (*apply)(const std::string& metrics);
};
void leave(const std::string&) {}
void remove_it(const std::string& path) { fs::remove(path); }
void tear(const std::string& path) { fs::resize_file(path, fs::file_size(path) - 20); }
void append_torn(const std::string& path) {
  write_file(path, read_file(path) + R"({"iteration":11,"consumed)");
}
void append_later(const std::string& path) {
  write_file(path, read_file(path) + R"({"iteration":11,"lm loss":1.0})"
                                     "\n");
}

class Resume : public testing::TestWithParam<Damage> {};

TEST_P(Resume, TenAndTenAreTwenty) {
  const Experiment experiment;
  const Outcome first = experiment.train(until(10));
  ASSERT_EQ(first.exit_code, 0) << first;
  const std::string metrics = experiment / "run/metrics.jsonl";
  const bool lost = GetParam().apply == remove_it || GetParam().apply == tear;
  GetParam().apply(metrics);
  const Outcome second = experiment.train({"--resume"});
  expect_only_longer(second);
  EXPECT_THAT(second.err, HasSubstr("resuming from " + experiment.checkpoint_folder(10)));
  if (!lost) return twenty_steps().expect_same(experiment);
  // What was lost stays lost; the rest is as ever.
  EXPECT_THAT(experiment.metrics(), testing::EndsWith("}\n"));
  EXPECT_THAT(experiment.metrics(), HasSubstr(R"({"iteration":20,)"));
  const Experiment whole;
  ASSERT_EQ(whole.train().exit_code, 0);
  EXPECT_THAT(
      whole.metrics(),
      HasSubstr(experiment.metrics().substr(experiment.metrics().find(R"({"iteration":11)"))));
  EXPECT_TRUE(whole.checkpoint(20) == experiment.checkpoint(20));
}
INSTANTIATE_TEST_SUITE_P(Metrics, Resume,
                         testing::Values(Damage{"Intact", leave}, Damage{"Removed", remove_it},
                                         Damage{"Torn", tear}, Damage{"TornLater", append_torn},
                                         Damage{"StepsAfterTheCheckpoint", append_later}),
                         [](const auto& row) { return row.param.name; });

// ---- signals. Where the signal came decides how long the uninterrupted run is.

void expect_same_after_ten_more(const Experiment& experiment) {
  const int64_t end = experiment.newest_iteration() + 10;
  const Outcome o = experiment.train(until(end, {"--resume"}));
  expect_only_longer(o);
  Reference(end).expect_same(experiment);
}

class Stop : public testing::TestWithParam<int> {};
TEST_P(Stop, SavesAndContinues) {
  const Experiment experiment;
  Process process(experiment.command(until(kEndless)));
  ASSERT_TRUE(process.wait_for(" iteration        7/"));
  process.send(GetParam());
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_THAT(o.err, HasSubstr("stopping: the iteration is finished first"));
  EXPECT_GE(experiment.newest_iteration(), 7);
  EXPECT_THAT(o.err, testing::EndsWith(text("stopped by a signal after iteration ",
                                            experiment.newest_iteration(), "; files of the run: ",
                                            experiment / "run", "\ncontinue with --resume\n")));
  expect_same_after_ten_more(experiment);
}
INSTANTIATE_TEST_SUITE_P(Train, Stop, testing::Values(SIGTERM, SIGINT, SIGHUP),
                         [](const auto& row) { return std::string(::sigabbrev_np(row.param)); });

TEST(Train, StopsInTheMiddleOfAnEvaluation) {
  const Experiment experiment;
  Process process(experiment.command(
      until(kEndless, {"--set", "train.eval_iters=1000000", "--set", "train.eval_interval=5"})));
  ASSERT_TRUE(process.wait_for("memory planned"));
  process.send(SIGTERM);
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_THAT(o.out, testing::Not(HasSubstr("validation")));
}

// As from a shell: what the arguments and redirections say.
Outcome shell(const Experiment& experiment, const std::string& line) {
  const Command train = experiment.command(until(3));
  std::vector<std::string> argv = {"/bin/bash", "-c", line};
  argv.insert(argv.end(), train.argv.begin(), train.argv.end());
  argv.insert(argv.begin() + 3, "bash");
  return run({.argv = std::move(argv), .folder = train.folder, .environment = train.environment});
}

TEST(Train, OutputThatCannotBeWrittenIsAFailureAtTheEnd) {
  const Experiment full, closed;
  const Outcome o = shell(full, "exec \"$@\" > /dev/full");
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, HasSubstr("warning: standard output cannot be written: No space left on "
                               "device; metrics.jsonl has what is missing there\n"));
  EXPECT_THAT(o.err, HasSubstr("finished iteration 3"));
  EXPECT_EQ(full.newest_iteration(), 3);
  const Outcome pipe = shell(closed, "set -o pipefail; \"$@\" | head -n 1 > /dev/null");
  EXPECT_EQ(pipe.exit_code, 1) << pipe;
  EXPECT_EQ(closed.newest_iteration(), 3);
}

TEST(Train, ClosedStreamsDoNotBecomeTheRunsFiles) {
  const Experiment reference, out, err;
  ASSERT_EQ(reference.train(until(3)).exit_code, 0);
  EXPECT_EQ(shell(out, "exec \"$@\" >&-").exit_code, 0);
  EXPECT_EQ(out.metrics(), reference.metrics());
  EXPECT_EQ(shell(err, "exec \"$@\" 2>&-").exit_code, 0);
  EXPECT_EQ(err.metrics(), reference.metrics());
}

TEST(Train, StoppedWithoutCheckpoints) {
  const Experiment experiment;
  Process process(experiment.command(until(kEndless, {"--set", "checkpoint.save=false"})));
  ASSERT_TRUE(process.wait_for(" iteration        7/"));
  process.send(SIGTERM);
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_EQ(experiment.newest_iteration(), 0);
  EXPECT_THAT(o.err, testing::EndsWith("\nnothing was saved: start anew with --overwrite\n"));
}

// --overwrite would cost the checkpoints that there are.
TEST(Train, StoppedWithoutCheckpointsOfItsOwn) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  Process process(
      experiment.command(until(kEndless, {"--resume", "--set", "checkpoint.save=false"})));
  ASSERT_TRUE(process.wait_for(" iteration        7/"));
  process.send(SIGTERM);
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_EQ(experiment.newest_iteration(), 5);
  EXPECT_THAT(o.err,
              testing::EndsWith("\nnothing was saved: --resume continues where this run did\n"));
}

TEST(Train, StoppedBeforeItHasAnythingGivesTheOldRunBack) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const std::string before = experiment.metrics() + experiment.checkpoint(5);
  Process process(
      experiment.command(until(kEndless, {"--overwrite", "--set", "train.eval_iters=1000000",
                                          "--set", "checkpoint.save=false"})));
  ASSERT_TRUE(process.wait_for("memory planned"));
  process.send(SIGTERM);
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_THAT(o.err, HasSubstr("holds the old one again\n"));
  EXPECT_TRUE(experiment.metrics() + experiment.checkpoint(5) == before);
}

TEST(Train, KilledAtAnyMoment) {
  const Experiment experiment;
  std::mt19937 random(20261201);
  int resumed = 0;
  for (int i = 0; i < 8; ++i) {
    const bool resume = experiment.newest_iteration() > 0;
    resumed += resume;
    Process process(experiment.command(
        until(kEndless, {resume ? "--resume" : "--overwrite", "--set", "checkpoint.save_interval=2",
                         "--set", "checkpoint.keep=2"})));
    // Any moment of some steps, evaluations and saves. A slow disk must not keep every round from
    // its first checkpoint, so every other one waits for a save.
    ASSERT_TRUE(process.wait_for(i % 2 == 0 ? "/ 1000000 | consumed" : " saved checkpoint "));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    process.send(SIGKILL);
    ASSERT_EQ(process.finish().signal, SIGKILL);
  }
  EXPECT_GE(resumed, 6);
  expect_same_after_ten_more(experiment);
}

// ---- a damaged newest checkpoint

struct Fault {
  const char* name;
  const char* file;
  void (*apply)(const std::string& path);
  const char* cause;
};
void flip(const std::string& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  write_file(path, bytes);
}
void halve(const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); }

const Fault kFaults[] = {
    {"ModelFlipped", "model.safetensors", flip, "model.safetensors does not match its checksum"},
    {"OptimizerFlipped", "optimizer.safetensors", flip,
     "optimizer.safetensors does not match its checksum"},
    {"ConfigFlipped", "config.toml", flip, "config.toml does not match its checksum"},
    {"ManifestFlipped", "manifest.json", flip, "manifest.json"},
    {"ModelCut", "model.safetensors", halve, "model.safetensors has "},
    {"OptimizerCut", "optimizer.safetensors", halve, "optimizer.safetensors has "},
    {"ConfigCut", "config.toml", halve, "config.toml has "},
    {"ManifestCut", "manifest.json", halve, "manifest.json is not a JSON object"},
    {"ModelGone", "model.safetensors", remove_it, "model.safetensors: No such file or directory"},
    {"ManifestGone", "manifest.json", remove_it, "manifest.json"},
};

class DamagedCheckpoint : public testing::TestWithParam<Fault> {};
TEST_P(DamagedCheckpoint, FallsBackToTheOneBefore) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train().exit_code, 0);
  GetParam().apply(text(experiment.checkpoint_folder(20), "/", GetParam().file));
  const Outcome o = experiment.train({"--resume"});
  ASSERT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.err, StartsWith(text("warning: checkpoint '", experiment.checkpoint_folder(20),
                                     "' is incomplete or damaged\n  ")));
  EXPECT_THAT(o.err, HasSubstr(GetParam().cause));
  EXPECT_EQ(o.err.find("warning"), o.err.rfind("warning")) << o;
  EXPECT_THAT(o.err, HasSubstr("resuming from " + experiment.checkpoint_folder(15) + "\n"));
  twenty_steps().expect_same(experiment);
}
INSTANTIATE_TEST_SUITE_P(Train, DamagedCheckpoint, testing::ValuesIn(kFaults),
                         [](const auto& row) { return row.param.name; });

TEST(Train, AFinishedRunIsLeftAlone) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(10)).exit_code, 0);
  const auto everything = [&] {
    std::map<std::string, std::pair<std::string, fs::file_time_type>> files;
    for (const auto& entry : fs::recursive_directory_iterator(experiment / "run")) {
      if (entry.is_regular_file())
        files[entry.path().string()] = {read_file(entry.path().string()), entry.last_write_time()};
    }
    return files;
  };
  const auto before = everything();
  for (const int end : {10, 7}) {
    const Outcome o = experiment.train(until(end, {"--resume"}));
    EXPECT_EQ(o.exit_code, 0) << o;
    EXPECT_EQ(o.out, "");
    EXPECT_THAT(o.err, HasSubstr(text("the run is finished: ", experiment.checkpoint_folder(10),
                                      " is of iteration 10, train.train_iters is ", end,
                                      "\n  fix: raise train.train_iters to train on\n")));
    EXPECT_TRUE(everything() == before);
  }
}

TEST(Train, NoSoundCheckpointIsLeft) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  flip(experiment.checkpoint_folder(5) + "/model.safetensors");
  const Outcome o = experiment.train({"--resume"});
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, testing::EndsWith(text("error: there is no sound checkpoint in '",
                                            experiment / "run/checkpoints",
                                            "'\n  its only checkpoint is damaged\n"
                                            "  fix: check the path, or start the run anew\n")));
}

TEST(Train, ACheckpointThatLacksItsManifestIsNamed) {
  const Experiment experiment;
  ASSERT_EQ(experiment.train(until(5)).exit_code, 0);
  const std::string folder = experiment.checkpoint_folder(5);
  fs::remove(folder + "/manifest.json");
  const Outcome o = host({"generate", folder, "--prompt", "a"});
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, StartsWith(text("error: checkpoint '", folder,
                                     "' is incomplete or damaged\n  cannot open ", folder,
                                     "/manifest.json\n")));
}

TEST(Train, ASaveThatFailsLeavesNothing) {
  const Experiment experiment;
  const Outcome o = shell(experiment, "trap '' XFSZ; ulimit -f 16; exec \"$@\"");
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, HasSubstr("/model.safetensors\n  the system says: File too large\n"));
  EXPECT_TRUE(fs::is_empty(experiment / "run/checkpoints"));
}

// ---- evaluation

TEST(Train, EvaluatesAtTheStartInBetweenAndAtTheEnd) {
  const Experiment experiment;
  const Outcome o = experiment.train(until(7));
  ASSERT_EQ(o.exit_code, 0) << o;
  size_t lines = 0;
  for (const int at : {0, 5, 7}) {
    EXPECT_THAT(o.out, HasSubstr(text(" validation loss at iteration ", at, " | lm loss value: ")));
    EXPECT_THAT(experiment.metrics(),
                HasSubstr(text(R"({"iteration":)", at, R"(,"lm loss validation":)")));
  }
  const std::string metrics = experiment.metrics();
  for (size_t at = 0; (at = metrics.find("validation", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u) << metrics;

  const Experiment none;
  const Outcome without = none.train(until(7, {"--set", "train.eval_iters=0"}));
  ASSERT_EQ(without.exit_code, 0) << without;
  EXPECT_THAT(without.out, testing::Not(HasSubstr("validation")));
  // Looking at the validation split changes nothing.
  EXPECT_TRUE(none.checkpoint(7) == experiment.checkpoint(7));
}

// ---- exit codes

struct Exit {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  const char* message;
};
const Exit kExits[] = {
    {"Success", {"run", "tiny.toml", "--set", "train.train_iters=1"}, 0, "finished iteration 1; "},
    {"PrintConfig", {"run", "tiny.toml", "--print-config"}, 0, ""},
    {"NoCommand", {}, 2, "error: no command given\n"},
    {"UnknownOption", {"run", "tiny.toml", "--reusme"}, 2, "  fix: did you mean '--resume'?\n"},
    {"NoManifest", {"run", "absent.toml"}, 2, "error: cannot read the manifest absent.toml\n"},
    {"BadManifest", {"run", "tiny.toml", "--set", "train.train_iters=0"}, 2, "train.train_iters"},
    {"TooManyThreads",
     {"run", "tiny.toml", "--set", "train.num_threads=1000000"},
     2,
     "train.num_threads"},
    {"BadModel",
     {"run", "tiny.toml", "--set", "model.num_attention_heads=5"},
     2,
     "error: model.hidden_size 32 is not divisible by model.num_attention_heads 5\n"},
    {"IgnoredOption",
     {"run", "tiny.toml", "--set", "data.num_samples=7"},
     2,
     "plugin 'mock' declares this option and never reads it: the value would be ignored\n"},
    {"NoData",
     {"run", "tiny.toml", "--set", "data.plugin=\"megatron_gpt\"", "--set",
      "data.data_path=\"absent\""},
     1,
     "absent.idx does not exist\n"},
    {"NoPlugin",
     {"run", "tiny.toml", "--set", "model.plugin=\"gtp\""},
     3,
     "error: model plugin 'gtp' not found\n"},
};

class ExitCode : public testing::TestWithParam<Exit> {};
TEST_P(ExitCode, AsDocumented) {
  const Experiment experiment;
  const Outcome o = host(GetParam().arguments, experiment.folder());
  EXPECT_EQ(o.exit_code, GetParam().code) << o;
  EXPECT_THAT(o.err, HasSubstr(GetParam().message));
}
void PrintTo(const Exit& row, std::ostream* out) { *out << row.name; }
INSTANTIATE_TEST_SUITE_P(Train, ExitCode, testing::ValuesIn(kExits),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace megatron::test
