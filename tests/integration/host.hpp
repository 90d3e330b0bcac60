// The built host on the command line, shielded from the plugins and settings of whoever runs the
// tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/run_command.hpp"

namespace megatron::test {

inline const std::string kHost = MEGATRON_BINARY_DIR "/bin/megatron-host";
inline const std::string kPlugins = MEGATRON_BINARY_DIR "/lib/megatron/plugins";
inline const std::string kBadPlugins = MEGATRON_BINARY_DIR "/tests/bad_plugins";

// `program` "" is the host of the build tree.
Command host_command(std::vector<std::string> arguments, std::string folder = {},
                     std::string program = {});
Outcome host(std::vector<std::string> arguments, std::string folder = {});

std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);
// Every `from` in `in` becomes `to`: folders that differ from test to test.
std::string replaced(std::string in, std::string_view from, std::string_view to);

}  // namespace megatron::test
