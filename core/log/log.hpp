// Plain lines to stderr, one writer for the host and its plugins. Warnings and errors start with
// their level, in colour on a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "megatron/abi/host.h"
#include "megatron/status.hpp"

namespace megatron::log {

enum class Level : uint32_t {
  trace = MGT_LOG_TRACE,
  debug = MGT_LOG_DEBUG,
  info = MGT_LOG_INFO,
  warning = MGT_LOG_WARNING,
  error = MGT_LOG_ERROR,
  off,
};

// "trace", "debug", "info", "warning", "error" or "off"; an error names the choices.
Result<Level> parse_level(std::string_view name);
std::string_view level_name(Level level);

// Messages below it are dropped; `info` at the start.
void set_level(Level level);
bool enabled(Level level);

// Thread-safe; a message of several lines stays together. Trailing newlines are dropped.
void write(Level level, std::string_view message);
inline void trace(std::string_view message) { write(Level::trace, message); }
inline void debug(std::string_view message) { write(Level::debug, message); }
inline void info(std::string_view message) { write(Level::info, message); }
inline void warning(std::string_view message) { write(Level::warning, message); }
inline void error(std::string_view message) { write(Level::error, message); }
inline void error(const Status& status) { write(Level::error, status.message()); }

// What a plugin says: "[adamw] message"; the body of mgt_host::log. A level that this host does not
// know counts as a warning, so that it is seen.
std::string plugin_text(std::string_view plugin, std::string_view message);
void write_plugin(std::string_view plugin, mgt_log_level level, mgt_str message) noexcept;

}  // namespace megatron::log
