// megatron-host: the command line. Exit codes: cli/exit_code.hpp.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <iostream>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/usage.hpp"
#include "log/log.hpp"
#include "megatron/abi/version.h"

namespace {

using megatron::Code;
using megatron::Status;
using megatron::cli::Context;
using megatron::cli::ExitCode;

void add_global_options(CLI::App& app, Context& context) {
  app.set_version_flag(
      "--version", megatron::text("megatron-host ", MGT_SDK_VERSION, " (plugin ABI ", MGT_ABI_MAJOR,
                                  ".", MGT_ABI_MINOR, ")"));
  app.add_option("--plugin", context.plugin_files, "A plugin file to take before any folder")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--plugin-path", context.plugin_folders,
                 "A folder to search for plugins before all others")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
}

// A full disk or a closed pipe must not look like success.
Status flush_output() {
  if (std::cout.flush()) return {};
  return Status::error(Code::data_loss, "the output is incomplete",
                       "standard output cannot be written", "check its disk or its pipe");
}

ExitCode finish(const Status& status) {
  if (!status.ok()) megatron::log::error(status);
  return megatron::cli::exit_code(status);
}

ExitCode run(int argc, char** argv) {
  Context context;
  context.command_line.assign(argv, argv + argc);
  CLI::App app("Trains Transformer models that are put together from plugins.", "megatron-host");
  add_global_options(app, context);
  app.require_subcommand(1);
  app.fallthrough();  // inherited: global options may stand behind the subcommand
#define MEGATRON_ADD_COMMAND(name) megatron::cli::add_##name(app, context);
  MEGATRON_COMMANDS(MEGATRON_ADD_COMMAND)
#undef MEGATRON_ADD_COMMAND
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return finish(megatron::cli::explain_parse_error(app, error));
    app.exit(error);  // prints help or version
    return finish(flush_output());
  }
  const Status status = context.action();
  return finish(status.ok() ? flush_output() : status);
}

}  // namespace

int main(int argc, char** argv) { return static_cast<int>(run(argc, argv)); }
