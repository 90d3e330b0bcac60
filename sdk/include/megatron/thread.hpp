// Threads, with an error that says what could not be started.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "megatron/status.hpp"

namespace megatron {

// Runs `body` in a thread of its own; `purpose` says for what ("reading samples"). Throws
// StatusError, RESOURCE_EXHAUSTED, when the system gives none.
template <class Body>
std::thread start_thread(std::string_view purpose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& e) {
    throw StatusError(Status::error(
        Code::resource_exhausted, text("cannot start a thread for ", purpose),
        text("the system says: ", e.code().message()),
        "raise the limit on processes (ulimit -u, pids.max) or on memory (ulimit -v)"));
  }
}

}  // namespace megatron
