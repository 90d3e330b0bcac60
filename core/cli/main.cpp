// megatron-host: the command line. Exit codes: cli/exit_code.hpp.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

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
  app.add_option("--log-level", context.log_level,
                 "Least severe messages that are printed: trace, debug, info, warning, error, off")
      ->type_name("LEVEL")
      ->default_str("info");
}

// Files that are read as memory (datasets) end a process that reads behind their end.
void explain_bus_error(int) {
  constexpr std::string_view kMessage =
      "error: a file became shorter while it was read\n"
      "  it was mapped as memory: a dataset that another program wrote into, or a damaged disk\n"
      "  fix: replace datasets by renaming a finished file; continue the run with --resume\n";
  const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(written < 0 ? 1 : static_cast<int>(ExitCode::failure));
}

void prepare_process() {
  // A rank is started by way of /proc/self/exe and would be called that.
  ::prctl(PR_SET_NAME, "megatron-host");
  // Otherwise the next file opened would be taken for a stream that the caller has closed.
  while (true) {
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) break;
  }
  std::signal(SIGBUS, explain_bus_error);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its writer
}

// A full disk or a closed pipe must not look like success.
Status flush_output() {
  if (std::cout.flush() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return Status::error(Code::data_loss, "the output is incomplete",
                       "standard output cannot be written", "check its disk or its pipe");
}

ExitCode finish(const Status& status) {
  if (!status.message().empty()) megatron::log::error(status);
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
  const auto level = megatron::log::parse_level(context.log_level);
  if (!level.ok()) return finish(Status(level.status()).context("reading --log-level"));
  megatron::log::set_level(*level);
  const Status status = context.action();
  return finish(status.ok() ? flush_output() : status);
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(finish(Status::error(
        Code::resource_exhausted, "the host has no memory left",
        "the process may not have more, or a number of the manifest asks for very much",
        "look for sizes that are too large, or raise the limit of the process (ulimit -v)")));
  } catch (const megatron::StatusError& e) {
    return static_cast<int>(finish(e.status()));
  } catch (const std::exception& e) {
    return static_cast<int>(finish(
        Status::error(Code::internal, "the host threw an exception that nothing handles (a bug)",
                      e.what(), "report it with the command and the manifest")));
  }
}
