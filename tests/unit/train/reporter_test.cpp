// Console lines in Megatron's format, and metrics.jsonl.
#include "train/reporter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "support/temp_folder.hpp"

namespace megatron::train {
namespace {

IterationRecord record(int64_t iteration) {
  IterationRecord r;
  r.iteration = iteration;
  r.consumed_samples = iteration * 512;
  r.seconds = 0.25;
  r.learning_rate = 1.5e-4;
  r.global_batch_size = 512;
  r.losses = {{"lm", 10.0 / static_cast<double>(iteration)}};
  r.grad_norm = 2.0;
  return r;
}

TEST(FormatIteration, IsMegatronsLine) {
  IterationRecord r = record(7);
  r.losses = {{"lm", 10.8124}, {"load balancing", -0.5}};
  EXPECT_EQ(format_iteration(r, 500000, 2048.25, 142.26, "2026-01-02 03:04:05.678901"),
            " [2026-01-02 03:04:05.678901] iteration        7/  500000 | consumed samples:         "
            "3584 | elapsed time per iteration (ms): 250.0 | throughput per GPU (TFLOP/s/GPU): "
            "142.3 | tokens per second: 2048.2 | learning rate: 1.500000E-04 | global batch size:  "
            " 512 | lm loss: 1.081240E+01 | load balancing loss: -5.000000E-01 | loss scale: 1.0 | "
            "grad norm: 2.000 | number of skipped iterations:   0 | number of nan iterations:   0 "
            "|");
}

TEST(FormatIteration, LeavesUnknownThroughputOut) {
  const auto line = format_iteration(record(1), 10, 1, 0, "");
  EXPECT_EQ(line.find("throughput"), std::string::npos);
}

class ReporterTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "metrics.jsonl"; }
  std::string metrics() const { return *read_file(path()); }
  Reporter::Options options(int64_t log_interval) const {
    return {.train_iters = 7,
            .log_interval = log_interval,
            .tokens_per_iteration = 1024,
            .flops_per_iteration = 0,
            .metrics_path = path(),
            .progress_bar = false};
  }
  // What `iterations` of a run print.
  std::vector<std::string> lines(Reporter& reporter, int64_t first, int64_t last) {
    testing::internal::CaptureStdout();
    for (int64_t i = first; i <= last; ++i) EXPECT_TRUE(reporter.iteration(record(i)).ok());
    std::istringstream out(testing::internal::GetCapturedStdout());
    std::vector<std::string> result;
    for (std::string line; std::getline(out, line);) result.push_back(line);
    return result;
  }

  const test::TempFolder folder_;
};

bool has(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

TEST_F(ReporterTest, PrintsTheFirstEveryIntervalAndTheLast) {
  Reporter reporter(options(3));
  ASSERT_TRUE(reporter.open(0).ok());
  const auto printed = lines(reporter, 1, 7);
  ASSERT_EQ(printed.size(), 4U);
  EXPECT_TRUE(has(printed[0], "iteration        1/"));
  EXPECT_TRUE(has(printed[1], "iteration        3/"));
  EXPECT_TRUE(has(printed[2], "iteration        6/"));
  EXPECT_TRUE(has(printed[3], "iteration        7/"));
  // Losses are means over the lines' intervals: of 2 and 3, of 4 to 6, of 7.
  EXPECT_TRUE(has(printed[1], "lm loss: 4.166667E+00")) << printed[1];
  EXPECT_TRUE(has(printed[2], "lm loss: 2.055556E+00")) << printed[2];
  EXPECT_TRUE(has(printed[3], "lm loss: 1.428571E+00")) << printed[3];
}

// Means are over updates; the counts are those of the line's interval.
TEST_F(ReporterTest, CountsTheIterationsWithoutAnUpdate) {
  Reporter reporter(options(3));
  ASSERT_TRUE(reporter.open(0).ok());
  lines(reporter, 1, 4);
  testing::internal::CaptureStdout();
  IterationRecord skipped = record(5);
  skipped.losses["lm"] = std::nan("");
  skipped.grad_norm = std::numeric_limits<double>::infinity();
  skipped.loss_scale = 1024;
  skipped.skipped_iterations = skipped.nan_iterations = 1;
  ASSERT_TRUE(reporter.iteration(skipped).ok());
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(has(printed, " iteration        5/"));
  EXPECT_TRUE(has(printed,
                  "lm loss: 2.500000E+00 | loss scale: 1024.0 | grad norm: inf | number of "
                  "skipped iterations:   1 | number of nan iterations:   1 |"))
      << printed;
  EXPECT_TRUE(has(metrics(), R"({"iteration":5,"consumed_samples":2560,"lm loss":null,)"
                             R"("grad_norm":null,)"))
      << metrics();
  const auto next = lines(reporter, 6, 6);
  EXPECT_TRUE(has(next.at(0), "skipped iterations:   0 | number of nan iterations:   0 |"));
}

TEST_F(ReporterTest, WritesOneRecordAnIteration) {
  Reporter reporter(options(1));
  ASSERT_TRUE(reporter.open(0).ok());
  lines(reporter, 1, 2);
  testing::internal::CaptureStdout();
  ASSERT_TRUE(reporter.validation("validation", 2, {{"lm", 2.5}}).ok());
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(metrics(), R"({"iteration":1,"consumed_samples":512,"lm loss":10.0,"grad_norm":2.0,)"
                       R"("learning_rate":0.00015,"elapsed_ms":250.0,"tokens_per_second":4096.0})"
                       "\n"
                       R"({"iteration":2,"consumed_samples":1024,"lm loss":5.0,"grad_norm":2.0,)"
                       R"("learning_rate":0.00015,"elapsed_ms":250.0,"tokens_per_second":4096.0})"
                       "\n"
                       R"({"iteration":2,"lm loss validation":2.5})"
                       "\n");
  // Rules as long as the line and one more.
  const std::string line =
      " validation loss at iteration 2 | lm loss value: 2.500000E+00 | lm loss PPL: "
      "1.218249E+01 | ";
  const std::string rule(line.size() + 1, '-');
  EXPECT_EQ(printed, text(rule, "\n", line, "\n", rule, "\n"));
}

TEST_F(ReporterTest, ThePerplexityIsLimited) {
  Reporter reporter(options(1));
  testing::internal::CaptureStdout();
  ASSERT_TRUE(reporter.validation("test", 5, {{"lm", 1000.0}}).ok());
  EXPECT_TRUE(has(testing::internal::GetCapturedStdout(), "lm loss PPL: 4.851652E+08"));
}

TEST_F(ReporterTest, AResumedRunContinuesTheStraightRunsFile) {
  {
    Reporter straight(options(1));
    ASSERT_TRUE(straight.open(0).ok());
    lines(straight, 1, 7);
  }
  const std::string expected = metrics();
  {
    Reporter first(options(1));
    ASSERT_TRUE(first.open(0).ok());
    lines(first, 1, 6);  // the last checkpoint is of iteration 4
  }
  Reporter second(options(1));
  ASSERT_TRUE(second.open(4).ok());
  lines(second, 5, 7);
  EXPECT_EQ(metrics(), expected);
}

// A killed run tears its last line; people edit files.
TEST_F(ReporterTest, WhatIsNoRecordIsDropped) {
  ASSERT_TRUE(write_file(path(),
                         "{\"iteration\":1,\"lm loss\":3}\n"
                         "\n"
                         "{\"iteration\":\"two\"}\n"
                         "{\"lm loss\":3}\n"
                         "[1]\n"
                         "{\"iteration\":2,\"lm l")
                  .ok());
  Reporter reporter(options(1));
  ASSERT_TRUE(reporter.open(2).ok());
  EXPECT_EQ(metrics(), "{\"iteration\":1,\"lm loss\":3}\n");
}

TEST_F(ReporterTest, SaysWhichFileItCannotWrite) {
  auto o = options(1);
  o.metrics_path = folder_ / "nowhere/metrics.jsonl";
  Reporter reporter(o);
  const auto status = reporter.open(0);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(has(std::string(status.message()), o.metrics_path)) << status.message();
}

}  // namespace
}  // namespace megatron::train
