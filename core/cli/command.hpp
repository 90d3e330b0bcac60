// What every subcommand is: a file that adds it to the command line. To add one, write
// `void add_<name>(CLI::App&, Context&)` in <name>.cpp and one line below.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

#include "megatron/status.hpp"
#include "plugin/registry.hpp"

#define MEGATRON_COMMANDS(X) \
  X(check)                   \
  X(describe_plugin)         \
  X(generate)                \
  X(graph)                   \
  X(list_plugins)            \
  X(preprocess)              \
  X(run)

namespace megatron::cli {

struct Context {
  std::vector<std::string> command_line;  // argv as given
  // Global options.
  std::vector<std::string> plugin_files;
  std::vector<std::string> plugin_folders;
  std::string log_level = "info";
  // Set by the chosen subcommand's callback; runs when the whole command line was accepted.
  std::function<Status()> action;
};

#define MEGATRON_DECLARE_COMMAND(name) void add_##name(CLI::App& app, Context& context);
MEGATRON_COMMANDS(MEGATRON_DECLARE_COMMAND)
#undef MEGATRON_DECLARE_COMMAND

// What commands on an experiment take: its manifest and --set, and how many ranks it has.
struct ManifestArguments {
  std::string manifest;
  std::vector<std::string> overrides;
  int64_t ranks = 0;  // 0: as many as the layout asks for
};
void add_manifest_arguments(CLI::App& command, ManifestArguments& arguments,
                            const std::string& ranks_help);

// Scans for plugins as the global options and the environment say; folders that cannot be searched
// are warnings.
Result<plugin::Registry> open_registry(const Context& context, plugin::HostServices& services);

// For commands that compute nothing: one thread, log lines through core/log. Lives for the process.
plugin::HostServices& serial_services();

}  // namespace megatron::cli
