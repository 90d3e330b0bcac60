#include "train/cluster.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "launch/local_launcher.hpp"

namespace megatron::train {
namespace {

// The local launcher's listening socket, or a new one.
Result<FileDescriptor> listener(const launch::RankInfo& info) {
  if (const char* inherited = std::getenv(launch::kListenerVariable)) {
    int fd = -1;
    std::from_chars(inherited, inherited + std::strlen(inherited), fd);
    ::unsetenv(launch::kListenerVariable);
    return FileDescriptor(fd);
  }
  return launch::listen_on("", info.store_port);
}

}  // namespace

Result<std::unique_ptr<Cluster>> Cluster::join(const launch::RankInfo& info) {
  std::unique_ptr<Cluster> out(new Cluster(info));
  out->activity_.set("joining the run");
  if (info.rank == 0) {
    MGT_ASSIGN_OR_RETURN(FileDescriptor socket, listener(info));
    launch::StoreOptions options;
    options.token = info.token;
    options.world_size = info.world_size;
    out->server_ = std::make_unique<launch::StoreServer>(std::move(socket), options);
  }
  launch::StoreClient::Options options;
  options.on_abort = [cluster = out.get()](std::string_view reason) {
    const std::lock_guard lock(cluster->mutex_);
    if (cluster->on_abort_) cluster->on_abort_(reason);
  };
  MGT_ASSIGN_OR_RETURN(out->client_, launch::StoreClient::join(info, out->activity_, options));
  MGT_RETURN_IF_ERROR(out->client_->barrier("joined", options.join_timeout));
  return out;
}

Cluster::~Cluster() {
  client_.reset();
  server_.reset();
}

void Cluster::on_abort(std::function<void(std::string_view)> body) {
  const std::lock_guard lock(mutex_);
  on_abort_ = std::move(body);
}

std::string Cluster::states() const {
  const auto list = client_->states(std::chrono::seconds(5));
  if (!list.ok()) return {};
  std::string out;
  for (size_t r = 0; r < list->size(); ++r)
    out += text("\n  rank ", r, ": ", (*list)[r].empty() ? "nothing heard yet" : (*list)[r]);
  return out;
}

Status Cluster::leave(Status status) {
  on_abort(nullptr);
  if (status.ok()) {
    client_->goodbye();
    return status;
  }
  if (const std::string reason = client_->abort_reason(); !reason.empty())
    return Status(Code::aborted, text("stopped with the run: ", reason));
  std::string report(status.message());
  if (status.code() == Code::deadline_exceeded)
    report += text("\n  what ranks were doing:", states());
  client_->fail(text("rank ", info_.rank, " failed: ", report));
  return Status(status.code(), std::move(report));
}

}  // namespace megatron::train
