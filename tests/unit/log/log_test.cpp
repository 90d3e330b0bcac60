#include "log/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

namespace megatron::log {
namespace {

// What `body` writes to stderr at `level`. gtest redirects stderr to a file: no terminal.
std::string written(Level level, const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  set_level(level);
  body();
  std::fflush(stderr);
  set_level(Level::info);
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
  EXPECT_EQ(written(Level::info, one_of_each), "c\nwarning: d\nerror: e\n");
  EXPECT_EQ(written(Level::trace, one_of_each), "trace: a\ndebug: b\nc\nwarning: d\nerror: e\n");
  EXPECT_EQ(written(Level::error, one_of_each), "error: e\n");
  EXPECT_EQ(written(Level::off, one_of_each), "");
}

TEST(Log, TextIsNeverAFormat) {
  EXPECT_EQ(written(Level::info, [] { info("100% {} %v {0}"); }), "100% {} %v {0}\n");
}

TEST(Log, ATerminalIsNotCommanded) {
  EXPECT_EQ(written(Level::info, [] { error(invalid_argument("\x1b[2J", "cause")); }),
            "error: \\x1b[2J\n  cause\n");
}

TEST(Log, StatusAndTrailingNewlines) {
  EXPECT_EQ(written(Level::info, [] { error(invalid_argument("fact", "cause", "act")); }),
            "error: fact\n  cause\n  fix: act\n");
  EXPECT_EQ(written(Level::info, [] { info("x\n\r\n"); }), "x\n");
}

TEST(Log, Plugins) {
  EXPECT_EQ(plugin_text("adamw", "hello\n"), "[adamw] hello");
  const auto plugin = [] {
    write_plugin("adamw", MGT_LOG_DEBUG, to_abi("hidden"));
    write_plugin("adamw", MGT_LOG_INFO, to_abi("hello\n"));
    write_plugin("adamw", MGT_LOG_ERROR, {nullptr, 0});
    write_plugin("adamw", 77, to_abi("from the future"));
  };
  EXPECT_EQ(written(Level::info, plugin),
            "[adamw] hello\nerror: [adamw] \nwarning: [adamw] from the future\n");
}

TEST(Log, LinesOfThreadsStayWhole) {
  const std::string out = written(Level::info, [] {
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
