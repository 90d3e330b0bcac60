// A rank's connection to the rendezvous store: values, heartbeats, and the word to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "launch/activity.hpp"
#include "launch/environment.hpp"
#include "launch/message.hpp"
#include "megatron/abi/comm.h"
#include "megatron/file.hpp"

namespace megatron::launch {

class StoreClient {
 public:
  struct Options {
    std::chrono::milliseconds join_timeout = std::chrono::seconds(120);
    std::chrono::milliseconds heartbeat = std::chrono::milliseconds(500);
    // Called once, from the client's thread, when the run has to stop.
    std::function<void(std::string_view reason)> on_abort;
  };

  // Connects (again and again until the store serves) and joins.
  static Result<std::unique_ptr<StoreClient>> join(const RankInfo& info, const Activity& activity,
                                                   Options options);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  Status set(std::string_view key, std::string_view value);
  // Waits; DEADLINE_EXCEEDED names the key.
  Result<std::string> get(std::string_view key, std::chrono::milliseconds timeout);
  // All ranks have called it with the same name.
  Status barrier(std::string_view name, std::chrono::milliseconds timeout);
  // What every rank was doing at its last heartbeat.
  Result<std::vector<std::string>> states(std::chrono::milliseconds timeout);
  // Everybody stops, with this report.
  void fail(std::string_view report);
  // The run ends as it should: leaving is no failure from now on.
  void goodbye();
  // Why the run has to stop; "" while all is well.
  std::string abort_reason() const;

  // The store as plugins see it; valid while the client lives.
  const mgt_store* table() const { return &table_; }

 private:
  StoreClient(FileDescriptor socket, const RankInfo& info, const Activity& activity,
              Options options);
  void run();
  Status send(const Message& message);
  void handle(const Message& message);
  void abort(std::string reason);

  FileDescriptor socket_;
  RankInfo info_;
  const Activity& activity_;
  Options options_;
  mgt_store table_{};
  std::mutex send_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> states_;
  uint64_t state_lists_ = 0;
  std::string reason_;
  bool leaving_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace megatron::launch
