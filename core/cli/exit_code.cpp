#include "cli/exit_code.hpp"

#include "plugin/scan.hpp"

namespace megatron::cli {

ExitCode exit_code(const Status& status) {
  if (status.ok()) return ExitCode::ok;
  if (status.code() == Code::invalid_argument) return ExitCode::usage;
  if (status.code() == plugin::kUnusable) return ExitCode::plugin_unusable;
  if (status.code() == Code::aborted) return ExitCode::stopped;
  if (status.code() == Code::cancelled) return ExitCode::interrupted;
  return ExitCode::failure;
}

}  // namespace megatron::cli
