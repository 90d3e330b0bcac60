// Work that somebody outside may ask to stop, with a signal.
#pragma once

#include <atomic>

#include "megatron/status.hpp"

namespace megatron::data {

using StopFlag = const std::atomic<bool>*;  // null: never asked to

// CANCELLED once the flag is set.
inline Status check_stop(StopFlag stop) {
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return {};
  return Status::error(Code::cancelled, "stopped by a signal", "no dataset was written or replaced",
                       "start the command again");
}

}  // namespace megatron::data
