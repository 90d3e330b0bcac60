// This process's place in a run of several: the rendezvous store, what it is doing, and the word to
// stop.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "launch/activity.hpp"
#include "launch/environment.hpp"
#include "launch/store_client.hpp"
#include "launch/store_server.hpp"

namespace megatron::train {

class Cluster {
 public:
  // Rank 0 serves the store. Waits for all ranks.
  static Result<std::unique_ptr<Cluster>> join(const launch::RankInfo& info);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster();

  const launch::RankInfo& info() const { return info_; }
  const mgt_store* store() const { return client_->table(); }
  launch::Activity& activity() { return activity_; }
  // Called at once, from another thread, when the run has to stop; nullptr: nobody is called.
  void on_abort(std::function<void(std::string_view reason)> body);

  // This rank ends: with success, or with an error that every other rank gets to know. The error
  // comes back with what all ranks were doing where it is one of waiting, and as ABORTED where
  // another rank's failure is its cause.
  Status leave(Status status);

 private:
  explicit Cluster(launch::RankInfo info) : info_(std::move(info)) {}
  std::string states() const;

  launch::RankInfo info_;
  launch::Activity activity_;
  std::mutex mutex_;
  std::function<void(std::string_view)> on_abort_;
  std::unique_ptr<launch::StoreServer> server_;
  std::unique_ptr<launch::StoreClient> client_;
};

}  // namespace megatron::train
