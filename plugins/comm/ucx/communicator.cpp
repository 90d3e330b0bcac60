#include "communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "host_identity.hpp"

namespace megatron::ucx {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

// A process may create several communicators over one store, one after the other; all ranks do so
// alike.
uint32_t next_instance() {
  static std::atomic<uint32_t> count{0};
  return count++;
}

uint64_t hash_of(std::string_view name, std::span<const uint32_t> ranks) {
  uint64_t hash = std::hash<std::string_view>()(name);
  for (const uint32_t r : ranks) hash = (hash ^ r) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

}  // namespace

UcxCommunicator::UcxCommunicator(const Config& config, const CommContext& context)
    : rank_(context.rank),
      world_size_(context.world_size),
      timeout_(milliseconds(config.number("timeout"))) {
  if (world_size_ > 1 && !context.store) {
    throw StatusError(internal_error(text("no rendezvous store for ", world_size_, " ranks")));
  }
  peers_ = value_or_throw(LocalPeers::listen(rank_));
  meet(context, {config.string("transports"), config.string("devices")});
  const auto processors = static_cast<uint32_t>(std::max<long>(::sysconf(_SC_NPROCESSORS_ONLN), 1));
  const Engine::Options options{
      std::chrono::microseconds(config.integer("spin_us")),
      local_.size() > processors,
  };
  throw_if_error(
      Engine::create(options, local_, local_self_, peers_, deadline(), network_.get(), engine_));
  if (network_ != nullptr) {
    network_->on_control = [this](const Control& control) { dispatch(control); };
    network_->on_gone = [this](uint32_t rank, bool orderly) {
      engine_->remote_gone(rank, orderly);
    };
  }
  engine_->start();
}

UcxCommunicator::~UcxCommunicator() {
  engine_->stop();
  if (network_ != nullptr) network_->say_goodbye();
  peers_.say_goodbye();
}

// Two rounds through the store: where everybody is, then the addresses of those on several hosts.
void UcxCommunicator::meet(const CommContext& context, const Network::Options& options) {
  const auto process = static_cast<int32_t>(::getpid());
  const auto timeout = static_cast<uint64_t>(timeout_.count());
  identities_.push_back(host_identity());
  if (world_size_ == 1) {
    local_.push_back({0, process, peers_.address()});
    return;
  }
  const std::string own = identities_.front();
  identities_.resize(world_size_);
  const std::string prefix = text("comm.ucx/", next_instance(), "/");
  context.store->set(text(prefix, rank_), text(own, "\n", process, "\n", peers_.address()));
  bool spread = false;
  for (uint32_t r = 0; r < world_size_; ++r) {
    std::istringstream value(context.store->get(text(prefix, r), timeout));
    std::string socket;
    int32_t their_process = 0;
    std::getline(value, identities_[r]);
    value >> their_process;
    value.ignore();
    std::getline(value, socket);
    spread = spread || identities_[r] != own;
    if (identities_[r] == own) local_.push_back({r, their_process, socket});
  }
  local_self_ = local_position(rank_);
  throw_if_error(peers_.connect(local_, deadline()));
  if (!spread) return;
  network_ = value_or_throw(Network::create(rank_, options));
  context.store->set(text(prefix, rank_, "/ucx"), network_->address());
  for (uint32_t r = 0; r < world_size_; ++r) {
    if (identities_[r] != own)
      network_->add_peer(r, context.store->get(text(prefix, r, "/ucx"), timeout));
  }
}

void UcxCommunicator::dispatch(const Control& control) {
  for (Group* group : open_groups_) {
    if (group->serial() == control.group) group->receive(control);
  }
}

uint32_t UcxCommunicator::local_position(uint32_t rank) const {
  const auto at = std::find_if(local_.begin(), local_.end(),
                               [&](const LocalAddress& a) { return a.rank == rank; });
  return at == local_.end() ? kElsewhere : static_cast<uint32_t>(at - local_.begin());
}

std::unique_ptr<CommGroup> UcxCommunicator::group(std::string_view name,
                                                  std::span<const uint32_t> ranks) {
  const uint32_t serial = groups_++;
  const auto self = std::find(ranks.begin(), ranks.end(), rank_);
  if (self == ranks.end()) {
    throw StatusError(invalid_argument(text("rank ", rank_, " cannot create group '", name, "'"),
                                       "it is not a member",
                                       "every rank creates the group that it belongs to"));
  }
  std::vector<Team::Member> members;
  for (const uint32_t r : ranks) {
    const uint32_t local = local_position(r);
    if (local != kElsewhere) members.push_back({r, local, {}});
  }
  const size_t bytes = GroupMemory::size(static_cast<uint32_t>(members.size()));
  auto own = value_or_throw(
      SharedMemory::create("megatron-comm-group", bytes, SharedMemory::Pages::lazily));
  const PeerMessage message{PeerMessage::group, serial, bytes, hash_of(name, ranks)};
  // Without the engine's lock: a peer may come here only after a collective in which this rank
  // still has to do its part.
  for (const auto& m : members) {
    if (m.rank != rank_) throw_if_error(peers_.send(m.local, message, own.descriptor()));
  }
  for (auto& m : members) {
    if (m.rank == rank_) continue;
    auto fd = value_or_throw(peers_.receive(m.local, message, deadline()));
    m.memory = value_or_throw(SharedMemory::map(std::move(fd), bytes, SharedMemory::Pages::lazily));
    m.memory.close_descriptor();
  }
  own.close_descriptor();
  for (auto& m : members) {
    if (m.rank == rank_) m.memory = std::move(own);
  }
  const auto position = static_cast<uint32_t>(self - ranks.begin());
  std::vector<std::string> identities;
  for (const uint32_t r : ranks) identities.push_back(identities_[r]);
  return std::make_unique<Group>(*engine_, segments_, network_.get(), open_groups_,
                                 Group::Settings{std::string(name),
                                                 {ranks.begin(), ranks.end()},
                                                 position,
                                                 timeout_,
                                                 serial,
                                                 HostMap::make(identities, position)},
                                 std::move(members));
}

void* UcxCommunicator::allocate(uint64_t bytes) {
  const uint32_t serial = ++allocations_;  // from 1: 0 is private memory
  const uint64_t size = std::max<uint64_t>(bytes, 1);
  std::vector<SharedMemory> parts(local_.size());
  auto& own = parts[local_self_];
  own =
      value_or_throw(SharedMemory::create("megatron-comm-segment", size, SharedMemory::Pages::now));
  const PeerMessage message{PeerMessage::segment, serial, size, 0};
  for (uint32_t i = 0; i < parts.size(); ++i) {
    if (i != local_self_) throw_if_error(peers_.send(i, message, own.descriptor()));
  }
  for (uint32_t i = 0; i < parts.size(); ++i) {
    if (i == local_self_) continue;
    auto fd = value_or_throw(peers_.receive(i, message, deadline()));
    parts[i] = value_or_throw(SharedMemory::map(std::move(fd), size, SharedMemory::Pages::now));
    parts[i].close_descriptor();
  }
  own.close_descriptor();
  return engine_->locked([&] { return segments_.add(serial, std::move(parts), local_self_); });
}

void UcxCommunicator::free(void* memory) noexcept {
  if (memory == nullptr) return;
  engine_->locked([&] { segments_.remove(memory); });
}

void UcxCommunicator::abort(std::string_view reason) noexcept {
  engine_->abort(std::string(reason));
}

}  // namespace megatron::ucx
