#include "cli/stop_signals.hpp"

#include <unistd.h>

#include <csignal>

#include "launch/local_launcher.hpp"

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
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : launch::kStopSignals) {
    sigaddset(&taken, signal);
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      ::sigaction(signal, &action, nullptr);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);  // a launcher has them wait until here
  return stop_requested;
}

}  // namespace megatron::cli
