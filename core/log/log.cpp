#include "log/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <utility>

#include "base/printable.hpp"

namespace megatron::log {
namespace {

constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warning", "error", "off"};

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::trace:
      return spdlog::level::trace;
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      break;
  }
  return spdlog::level::off;
}

// "warning: ", in colour; nothing for info, which is what a user reads all the time.
class LevelWord : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string_view word;
    if (message.level == spdlog::level::trace) word = "trace: ";
    if (message.level == spdlog::level::debug) word = "debug: ";
    if (message.level == spdlog::level::warn) word = "warning: ";
    if (message.level == spdlog::level::err) word = "error: ";
    message.color_range_start = out.size();
    out.append(word.data(), word.data() + word.size());
    message.color_range_end = out.size();
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelWord>();
  }
};

// Not spdlog's registry: a plugin that uses spdlog itself must not find or replace our logger.
// Never destroyed: threads may log until the process ends.
spdlog::logger& make_logger() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<LevelWord>('*').set_pattern("%*%v");
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_formatter(std::move(formatter));

  auto& logger = *new spdlog::logger("megatron", std::move(sink));
  logger.set_level(spdlog::level::info);
  logger.flush_on(spdlog::level::trace);
  return logger;
}

spdlog::logger& logger() {
  static spdlog::logger& instance = make_logger();
  return instance;
}

std::string_view without_newlines(std::string_view message) {
  while (message.ends_with('\n') || message.ends_with('\r')) message.remove_suffix(1);
  return message;
}

}  // namespace

Result<Level> parse_level(std::string_view name) {
  for (uint32_t i = 0; i < std::size(kLevels); ++i)
    if (kLevels[i] == name) return static_cast<Level>(i);
  return invalid_argument(text("unknown log level '", name, "'"),
                          "levels: trace, debug, info, warning, error, off", "use one of them");
}

std::string_view level_name(Level level) { return kLevels[static_cast<uint32_t>(level)]; }

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void write(Level level, std::string_view message) {
  const std::string line = printable_lines(without_newlines(message));
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

std::string plugin_text(std::string_view plugin, std::string_view message) {
  return text("[", plugin, "] ", without_newlines(message));
}

void write_plugin(std::string_view plugin, mgt_log_level level, mgt_str message) noexcept {
  try {
    const auto known = level <= MGT_LOG_ERROR ? static_cast<Level>(level) : Level::warning;
    if (enabled(known)) write(known, plugin_text(plugin, from_abi(message)));
  } catch (const std::exception&) {  // out of memory: losing a line is better than the process
    static_cast<void>(0);
  }
}

}  // namespace megatron::log
