// What the process tells its caller. Scripts and schedulers rely on these numbers.
#pragma once

#include "launch/local_launcher.hpp"
#include "megatron/status.hpp"

namespace megatron::cli {

enum class ExitCode : int {
  ok = 0,               // done
  failure = 1,          // it was tried and failed
  usage = 2,            // the command line, the environment or the manifest is wrong
  plugin_unusable = 3,  // a plugin that was asked for is missing, refused, unavailable or failed
  // A rank of a run that another rank's failure ended.
  stopped = launch::kStoppedByAnotherRank,
  // A signal ended it before it was done, in order; a run has saved.
  interrupted = launch::kInterrupted,
};

// By the status's code: OK, INVALID_ARGUMENT -> usage, plugin::kUnusable -> plugin_unusable, any
// other -> failure, but ABORTED -> stopped and CANCELLED -> interrupted.
ExitCode exit_code(const Status& status);

}  // namespace megatron::cli
