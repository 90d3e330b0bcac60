// `run` on several ranks of this host, as processes over a comm plugin: the same curve in every
// layout, checkpoints that any layout resumes, and refusals before anything starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "integration/experiment.hpp"

namespace megatron::test {
namespace {

using testing::HasSubstr;

struct LayoutCase {
  const char* name;
  const char* parallel;  // TOML
};
std::ostream& operator<<(std::ostream& out, const LayoutCase& c) { return out << c.name; }

constexpr const char* kPipeline2Tensor2 = R"(
[[parallel]]
plugin = "pipeline"
size = 2
[[parallel]]
plugin = "tensor"
size = 2
)";
constexpr const char* kData2Zero3Context2 = R"(
[[parallel]]
plugin = "data"
size = 2
zero_stage = 3
[[parallel]]
plugin = "context"
size = 2
)";
constexpr const char* kInterleaved = R"(
[[parallel]]
plugin = "pipeline"
size = 2
schedule = "interleaved"
virtual_stages = 2
)";

const std::vector<std::string> kSizes = {"--set", "train.global_batch_size=8", "--set",
                                         "model.num_layers=4"};

std::vector<std::string> steps(int64_t iterations, std::vector<std::string> more = {}) {
  more.insert(more.end(), kSizes.begin(), kSizes.end());
  return until(iterations, std::move(more));
}

Experiment experiment(const char* parallel) { return Experiment(text(kTinyGpt, parallel)); }

// Losses of training and validation, and gradient norms, in the order of metrics.jsonl.
std::vector<double> numbers(const Experiment& run) {
  std::vector<double> out;
  std::istringstream lines(run.metrics());
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    for (const char* key : {"lm loss", "lm loss validation", "grad_norm"})
      if (record.contains(key)) out.push_back(record[key]);
  }
  return out;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(b.empty());
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i] / b[i], 1, 1e-5) << i;
}

const std::vector<double>& one_rank() {
  static const std::vector<double> reference = [] {
    const Experiment one;
    const Outcome o = one.train(steps(10));
    EXPECT_EQ(o.exit_code, 0) << o;
    return numbers(one);
  }();
  return reference;
}

class Ranks : public testing::TestWithParam<LayoutCase> {};

TEST_P(Ranks, TrainAsOneDoes) {
  const Experiment many = experiment(GetParam().parallel);
  const Outcome o = many.train(steps(10));
  ASSERT_EQ(o.exit_code, 0) << o;
  expect_near(numbers(many), one_rank());
}

// Five steps in this layout, five more in others: in four ranks, and in one.
TEST_P(Ranks, ResumeWhatAnotherLayoutWrote) {
  for (const char* other : {kPipeline2Tensor2, ""}) {
    const Experiment many = experiment(GetParam().parallel);
    ASSERT_EQ(many.train(steps(5)).exit_code, 0);
    write_file(many / "tiny.toml", text(kTinyGpt, other));
    const Outcome o = many.train(steps(10, {"--resume"}));
    ASSERT_EQ(o.exit_code, 0) << o;
    expect_near(numbers(many), one_rank());
  }
}

TEST_P(Ranks, ResumeBitForBitInTheSameLayout) {
  const Experiment straight = experiment(GetParam().parallel);
  ASSERT_EQ(straight.train(steps(10)).exit_code, 0);
  const Experiment resumed = experiment(GetParam().parallel);
  ASSERT_EQ(resumed.train(steps(5)).exit_code, 0);
  ASSERT_EQ(resumed.train(steps(10, {"--resume"})).exit_code, 0);
  EXPECT_EQ(resumed.metrics(), straight.metrics());
  EXPECT_TRUE(resumed.checkpoint(10) == straight.checkpoint(10));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Ranks,
                         testing::Values(LayoutCase{"Pipeline2Tensor2", kPipeline2Tensor2},
                                         LayoutCase{"Data2Zero3Context2", kData2Zero3Context2},
                                         LayoutCase{"Interleaved", kInterleaved},
                                         LayoutCase{"One", ""}),
                         [](const auto& test) { return test.param.name; });

Outcome check(const Experiment& e, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"check", "tiny.toml"});
  return host(std::move(arguments), e.folder());
}

TEST(RanksRefused, BeforeAnythingStarts) {
  const struct {
    const char* parallel;
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {kInterleaved, {"--set", "model.num_layers=3"}, "the model has 3 layers and the pipeline 4"},
      {"[[parallel]]\nplugin = 'tensor'\nsize = 3\n", {}, "heads"},
      {kData2Zero3Context2, {"--set", "train.global_batch_size=6"}, "micro_batch_size"},
      {kPipeline2Tensor2,
       {"--ranks", "6"},
       "the run has 6 ranks, the layout needs a multiple of 4"},
      {"[[parallel]]\nplugin = 'tensr'\nsize = 2\n", {}, "tensor"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.says);
    const Experiment refused = experiment(c.parallel);
    const Outcome o = refused.train(c.arguments);
    EXPECT_NE(o.exit_code, 0);
    EXPECT_THAT(o.err, HasSubstr(c.says));
    EXPECT_EQ(o.err.find("[0]"), std::string::npos) << "a rank was started";
    EXPECT_EQ(refused.newest_iteration(), 0);
    const Outcome checked = check(refused, c.arguments);
    EXPECT_EQ(checked.exit_code, o.exit_code);
    EXPECT_EQ(checked.err, o.err);
    EXPECT_EQ(checked.out, "");
  }
}

TEST(RanksRefused, AStartThatCannotBe) {
  const Experiment e = experiment("[[parallel]]\nplugin = 'data'\nsize = 2\n");
  const auto expect_refused = [&](std::vector<std::string> arguments, const char* says) {
    SCOPED_TRACE(says);
    const Outcome o = e.train(steps(8, std::move(arguments)));
    EXPECT_EQ(o.exit_code, 1) << o;
    EXPECT_THAT(o.err, testing::StartsWith("error: "));
    EXPECT_THAT(o.err, HasSubstr(says));
    EXPECT_EQ(o.err.find("[0]"), std::string::npos) << "a rank was started";
  };
  expect_refused({"--set", "checkpoint.load=nosuch"}, "there is no sound checkpoint in '");
  expect_refused({"--resume"}, "there is no run to resume in '");
  expect_refused({"--set", "train.output_dir=/proc/x"}, "cannot create /proc/x\n");
  ASSERT_EQ(e.train(steps(4)).exit_code, 0);
  expect_refused({}, "already holds a run\n");
  expect_refused({"--resume", "--set", "model.hidden_size=64"}, "the run's model asks for f32[");
  EXPECT_EQ(e.newest_iteration(), 4);
}

TEST(Check, TellsTheMemoryThatTheRunPlans) {
  const Experiment e = experiment(kPipeline2Tensor2);
  const Outcome table = check(e, steps(1));
  EXPECT_EQ(table.exit_code, 0) << table;
  EXPECT_THAT(table.out, HasSubstr("ranks: 4 = pipeline 2 · tensor 2\n"));
  const Outcome o = check(e, steps(1, {"--json"}));
  const auto plan = nlohmann::json::parse(o.out);
  ASSERT_EQ(plan.at("stages").size(), 2U) << o;
  const double bytes = plan.at("stages")[0].at("memory_bytes").at("total").get<double>();
  char planned[64];
  std::snprintf(planned, sizeof planned, "memory planned on rank 0: %.3f GiB", bytes / (1 << 30));
  EXPECT_THAT(e.train(steps(1)).err, HasSubstr(planned));
  std::set<std::string> collectives;
  for (const auto& traffic : plan.at("stages")[0].at("communication"))
    collectives.insert(traffic.at("axis").get<std::string>() + " " +
                       traffic.at("collective").get<std::string>());
  EXPECT_TRUE(collectives.contains("pipeline send")) << o;
  EXPECT_TRUE(collectives.contains("tensor all_reduce")) << o;
}

// Numbers beyond the stated limits are refused by name.
TEST(Limits, OfRunAndCheck) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"--set", "train.micro_batch_size=4611686018427387904"}, "'micro_batch_size' must be"},
      {{"--set", "train.global_batch_size=9223372036854775806"}, "'global_batch_size' must be"},
      {{"--set", "train.train_iters=9223372036854775807"}, "'train_iters' must be"},
      {{"--set", "optimizer.lr_warmup_iters=4611686018427387905"}, "'lr_warmup_iters' must be"},
      {{"--set", "optimizer.lr_decay_iters=4611686018427387904"}, "'lr_decay_iters' must be"},
      {{"--set", "model.ffn_hidden_size=9223372036854775807"}, "'ffn_hidden_size' must be"},
      {{"--set", "model.hidden_size=1000000000"}, "'hidden_size' must be"},
      {{"--set", "model.hidden_size=16777216"}, "' is larger than any machine"},
      {{"--set", "train.micro_batch_size=100000000", "--set", "train.global_batch_size=0", "--set",
        "model.seq_length=4096"},
       "a result of op 'embedding' is larger than any machine"},
      {{"--set", "train.global_batch_size=262144"}, "a step would take 131072 micro-batches"},
      {{"--set", "train.micro_batch_size=1000", "--set", "train.global_batch_size=0", "--set",
        "parallel.data.size=1048576"},
       "over 1048576 data ranks the global batch is 1048576000; at most 100000000"},
      {{"--set", "model.make_vocab_size_divisible_by=9223372036854775807"},
       "'make_vocab_size_divisible_by' must be"},
      {{"--set", "parallel.pipeline.size=2", "--set",
        "parallel.pipeline.num_layers_in_first_pipeline_stage=9223372036854775807", "--set",
        "parallel.pipeline.num_layers_in_last_pipeline_stage=9223372036854775807"},
       "the first and last pipeline stages ask for 9223372036854775807 and 92233"},
      {{"--set", "parallel.pipeline.size=2", "--set",
        "parallel.pipeline.pipeline_model_parallel_layout=\"E(t)*1000000000000|tL\""},
       "written out it is longer than 1048576"},
      {{"--set", "train.seed=99999999999999999999"}, "does not fit into 64 bits"},
      {{"--set", "optimizer.lr=1e400"}, "does not fit into 64 bits"},
      {{"--set", "parallel.tensor.size=4294967297"}, "'size' must be"},
      {{"--set", "parallel.tensor.size=1048576", "--set", "parallel.pipeline.size=1048576"},
       "the layout needs more than 1048576 ranks"},
      {{"--set", "optimizer.lr=inf"}, "'lr' takes a finite number"},
      {{"--set", "model.init_method_std=nan"}, "'init_method_std' takes a finite number"},
      {{"--set", "optimizer.lr_warmup_init=5.0"}, "it exceeds lr = "},
      {{"--set", "optimizer.lr_decay_style=WSD", "--set", "optimizer.lr_wsd_decay_iters=100"},
       "the last phase takes"},
      {{"--set", "parallel.tensor.size=2", "--set", "comm.timeout=1e308"}, "'timeout' must be"},
      {{"--set", "train.output_dir=v5\xff"}, "not UTF-8"},
  };
  const Experiment e = experiment("");
  for (const auto& c : cases) {
    SCOPED_TRACE(c.says);
    const Outcome run = e.train(c.arguments);
    EXPECT_EQ(run.exit_code, 2) << run;
    EXPECT_THAT(run.err, HasSubstr(c.says));
    const Outcome checked = check(e, c.arguments);
    EXPECT_EQ(checked.exit_code, 2) << checked;
    EXPECT_EQ(checked.err, run.err);
  }
}

// A signal to the launcher reaches every rank, SIGHUP too, which libraries of comm plugins like to
// take.
TEST(RanksStop, TogetherAndSave) {
  const Experiment many = experiment(kPipeline2Tensor2);
  Process process(many.command(steps(1'000'000)));
  ASSERT_TRUE(process.wait_for(" iteration        2/"));
  process.send(SIGHUP);
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 130) << o;
  EXPECT_THAT(o.err, HasSubstr("\n[0] continue with --resume\n"));
  EXPECT_GE(many.newest_iteration(), 2);
}

// What a rank holds and which messages it exchanges can be read without a run.
TEST(GraphDump, ShowsARanksPrograms) {
  const Experiment many = experiment(kPipeline2Tensor2);
  const auto dump = [&](const char* rank) {
    return host({"graph", "dump", "tiny.toml", "--rank", rank}, many.folder());
  };
  const Outcome o = dump("3");
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.out, testing::StartsWith("# rank 3 of 4: data 0 · pipeline 1 · tensor 1\n"));
  EXPECT_THAT(o.out, HasSubstr("\n# backward pass\nprogram train.backward\n"));
  EXPECT_THAT(o.out, HasSubstr("vocab=192{192+65 of 257}"));
  EXPECT_THAT(o.out, HasSubstr("@recv = recv() {"));
  EXPECT_THAT(o.out, testing::Not(HasSubstr("embedding.position.weight")));
  EXPECT_THAT(dump("0").out, HasSubstr("embedding.position.weight"));
  EXPECT_EQ(dump("4").err,
            "error: there is no rank 4\n  the layout has 4 ranks, from 0\n"
            "  fix: give a --rank of the run, or the run's --ranks\n");
}

// However early the signal comes: while the launcher starts, and from the first rank on.
TEST(RanksStop, AtAnyMomentOfTheStart) {
  for (int milliseconds = -20; milliseconds < 60; milliseconds += 4) {
    SCOPED_TRACE(milliseconds);
    const Experiment many = experiment(kPipeline2Tensor2);
    Process process(many.command(steps(1'000'000)));
    if (milliseconds >= 0) {
      ASSERT_FALSE(process.children().empty());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(std::abs(milliseconds)));
    process.send(SIGTERM);
    const Outcome o = process.finish();
    EXPECT_TRUE(o.exit_code == 130 || (milliseconds < 0 && o.signal == SIGTERM)) << o;
    EXPECT_THAT(o.err, testing::Not(HasSubstr("error"))) << o;
  }
}

TEST(RanksStart, WithClosedStreams) {
  const Experiment many = experiment(kPipeline2Tensor2);
  const Command train = many.command(steps(1));
  std::vector<std::string> argv = {"/bin/bash", "-c", "exec \"$@\" >&- 2>&-", "bash"};
  argv.insert(argv.end(), train.argv.begin(), train.argv.end());
  EXPECT_EQ(run({.argv = std::move(argv), .folder = train.folder, .environment = train.environment})
                .exit_code,
            0);
  EXPECT_EQ(many.newest_iteration(), 1);
}

// The others learn of it, and the last word is what became of the one that ended first.
TEST(RanksFail, WhenOneIsKilled) {
  const Experiment many = experiment(kPipeline2Tensor2);
  Process process(many.command(steps(1'000'000)));
  ASSERT_TRUE(process.wait_for(" iteration        2/"));
  const auto ranks = process.children();
  ASSERT_EQ(ranks.size(), 4u);
  ::kill(*std::max_element(ranks.begin(), ranks.end()), SIGKILL);  // they start in order
  const Outcome o = process.finish();
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, testing::EndsWith("error: rank 3 was killed by signal 9 (Killed)\n"));
  for (const char* other : {"[0] error: ", "[1] error: ", "[2] error: "})
    EXPECT_THAT(o.err, HasSubstr(other));
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0) << "rank " << rank << " is left";
}

// Every rank leaves, and the last word is the error of the one that failed.
TEST(RanksFail, TogetherWithTheCulpritLast) {
  const Experiment failing = experiment(kPipeline2Tensor2);
  const Outcome o =
      failing.train(steps(10, {"--set", "optimizer.lr=1e30", "--set", "optimizer.clip_grad=0",
                               "--set", "optimizer.lr_warmup_iters=0"}));
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, HasSubstr("is not finite; the weights were not updated"));
}

}  // namespace
}  // namespace megatron::test
