#include "log/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

namespace megatron::log {
namespace {

// What `body` writes to stderr under `options`. gtest redirects stderr to a file: no terminal.
std::string written(const Options& options, const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  configure(options);
  body();
  std::fflush(stderr);
  configure({});
  return testing::internal::GetCapturedStderr();
}

void one_of_each() {
  trace("a");
  debug("b");
  info("c");
  warning("d");
  error("e");
}

TEST(Log, Levels) {
  EXPECT_EQ(written({}, one_of_each), "c\nwarning: d\nerror: e\n");
  EXPECT_EQ(written({.level = Level::trace}, one_of_each),
            "trace: a\ndebug: b\nc\nwarning: d\nerror: e\n");
  EXPECT_EQ(written({.level = Level::error}, one_of_each), "error: e\n");
  EXPECT_EQ(written({.level = Level::off}, one_of_each), "");
}

TEST(Log, RankPrefix) {
  EXPECT_EQ(written({.level = Level::warning, .rank = 3}, one_of_each),
            "[rank 3] warning: d\n[rank 3] error: e\n");
}

TEST(Log, Timestamps) {
  const std::string line = written({.timestamps = true}, [] { info("x"); });
  ASSERT_EQ(line.size(), std::string("12:34:56.789 x\n").size()) << line;
  EXPECT_EQ(line[2], ':');
  EXPECT_EQ(line[8], '.');
  EXPECT_EQ(line.substr(12), " x\n");
}

TEST(Log, TextIsNeverAFormat) {
  EXPECT_EQ(written({}, [] { info("100% {} %v {0}"); }), "100% {} %v {0}\n");
}

TEST(Log, ATerminalIsNotCommanded) {
  EXPECT_EQ(written({}, [] { error(invalid_argument("\x1b[2J", "cause")); }),
            "error: \\x1b[2J\n  cause\n");
}

TEST(Log, StatusAndTrailingNewlines) {
  EXPECT_EQ(written({}, [] { error(invalid_argument("fact", "cause", "act")); }),
            "error: fact\n  cause\n  fix: act\n");
  EXPECT_EQ(written({}, [] { info("x\n\r\n"); }), "x\n");
}

TEST(Log, Plugins) {
  EXPECT_EQ(plugin_text("adamw", "hello\n"), "[adamw] hello");
  const auto plugin = [] {
    write_plugin("adamw", MGT_LOG_DEBUG, to_abi("hidden"));
    write_plugin("adamw", MGT_LOG_INFO, to_abi("hello\n"));
    write_plugin("adamw", MGT_LOG_ERROR, {nullptr, 0});
    write_plugin("adamw", 77, to_abi("from the future"));
  };
  EXPECT_EQ(written({}, plugin),
            "[adamw] hello\nerror: [adamw] \nwarning: [adamw] from the future\n");
}

TEST(Log, LinesOfThreadsStayWhole) {
  const std::string out = written({}, [] {
    std::vector<std::thread> threads;
    for (char c = 'a'; c < 'e'; ++c)
      threads.emplace_back([c] {
        for (int i = 0; i < 200; ++i) info(std::string(60, c));
      });
    for (auto& thread : threads) thread.join();
  });
  std::istringstream lines(out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line, std::string(60, line[0]));
  EXPECT_EQ(count, 800);
}

TEST(Log, ParseLevel) {
  for (const auto level : {Level::trace, Level::info, Level::off})
    EXPECT_EQ(*parse_level(level_name(level)), level);
  EXPECT_EQ(parse_level("warn").status().message(),
            "unknown log level 'warn'\n"
            "  levels: trace, debug, info, warning, error, off\n"
            "  fix: use one of them");
}

}  // namespace
}  // namespace megatron::log
