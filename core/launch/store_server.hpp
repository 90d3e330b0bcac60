// The rendezvous store: served by rank 0, one connection a rank. It keeps small values by key,
// hears every rank's heartbeat, and when a rank dies, falls silent or reports a failure it tells
// all others to stop and why.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "megatron/file.hpp"
#include "megatron/status.hpp"

namespace megatron::launch {

struct StoreOptions {
  std::string token;
  uint32_t world_size = 1;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(120);    // for all ranks to appear
  std::chrono::milliseconds silence_timeout = std::chrono::seconds(30);  // without a heartbeat
};

// A listening TCP socket. port 0: any free one. The error names address and port.
Result<FileDescriptor> listen_on(const std::string& host, uint16_t port);
Result<uint16_t> port_of(const FileDescriptor& socket);

class StoreServer {
 public:
  StoreServer(FileDescriptor listener, StoreOptions options);
  // Waits until the ranks that are still here have left, for silence_timeout at most; 2 s in a run
  // that was stopped.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  class Loop;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace megatron::launch
