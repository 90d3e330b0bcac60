// Starts the ranks of a run on this host: the same command once a rank, with torchrun-style
// variables. Their output is merged line by line, each line with its rank; when one fails, the
// others end too, and what is printed last is the error of the one that failed first.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::launch {

// Exit code of a rank that stops because another one failed.
inline constexpr int kStoppedByAnotherRank = 9;
// Exit code of a rank that a signal made stop, in order.
inline constexpr int kInterrupted = 130;
// The signals that ask a run to stop. The launcher starts ranks with these blocked: a rank unblocks
// them when it has its handlers.
inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Environment variable with the number of an open descriptor: the listening socket of the
// rendezvous store, which rank 0 inherits, so that no port can be taken in between.
inline constexpr const char* kListenerVariable = "MEGATRON_STORE_FD";

struct LocalLaunch {
  std::vector<std::string> command;  // argv of every rank
  uint32_t ranks = 1;
  // How long the others may take to stop by themselves after one has failed; then they are killed.
  std::chrono::milliseconds grace = std::chrono::seconds(15);
  // Set from a signal handler: ranks get SIGTERM once and end by themselves.
  const std::atomic<bool>* stop = nullptr;
};

// Returns when every rank has ended; no process is left behind, also when the launcher itself is
// killed. CANCELLED when ranks were made to stop by a signal.
Status launch_local(const LocalLaunch& launch);

}  // namespace megatron::launch
