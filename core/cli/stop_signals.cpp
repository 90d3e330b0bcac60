#include "cli/stop_signals.hpp"

#include <unistd.h>

#include <csignal>

namespace megatron::cli {
namespace {

constinit std::atomic<bool> stop_requested{false};
constinit std::string_view stop_note;

void request_stop(int) {
  stop_requested.store(true, std::memory_order_relaxed);
  if (::write(STDERR_FILENO, stop_note.data(), stop_note.size()) < 0) {
    // Nobody reads it; the command stops all the same.
  }
}

}  // namespace

const std::atomic<bool>& stop_on_signals(std::string_view note, Waits waits) {
  stop_note = note;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = waits == Waits::restarted ? SA_RESETHAND | SA_RESTART : SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      ::sigaction(signal, &action, nullptr);
  }
  return stop_requested;
}

}  // namespace megatron::cli
