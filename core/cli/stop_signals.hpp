// Signals that ask a command to stop in order.
#pragma once

#include <atomic>
#include <string_view>

namespace megatron::cli {

enum class Waits : bool { restarted, interrupted };

// The first SIGINT, SIGTERM or SIGHUP sets the flag and prints `note`, which outlives the process;
// the next of the same kind ends the process. One that the process was started to ignore (nohup)
// stays ignored. `waits`: what becomes of a system call that waits, for input say.
const std::atomic<bool>& stop_on_signals(std::string_view note, Waits waits);

}  // namespace megatron::cli
