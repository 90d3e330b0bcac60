#include "launch/store_client.hpp"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "megatron/thread.hpp"

namespace megatron::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

// One attempt; an invalid descriptor with the reason when nobody serves yet.
FileDescriptor try_connect(const RankInfo& info, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int looked_up =
      getaddrinfo(info.store_host.c_str(), std::to_string(info.store_port).c_str(), &hints, &found);
  if (looked_up != 0) {
    why = gai_strerror(looked_up);
    return FileDescriptor();
  }
  FileDescriptor out;
  for (const addrinfo* a = found; a != nullptr && out.get() < 0; a = a->ai_next) {
    FileDescriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (socket.get() >= 0 && ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0) {
      out = std::move(socket);
    } else {
      why = std::strerror(errno);
    }
  }
  freeaddrinfo(found);
  return out;
}

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::join(const RankInfo& info,
                                                       const Activity& activity, Options options) {
  const auto deadline = Clock::now() + options.join_timeout;
  std::string why;
  for (;;) {
    auto socket = try_connect(info, why);
    if (socket.get() >= 0) {
      const int on = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      std::unique_ptr<StoreClient> client(
          new StoreClient(std::move(socket), info, activity, options));
      auto answer = client->get("\x01welcome", options.join_timeout);
      if (answer.ok()) return client;
      return std::move(answer).status().context(
          text("joining the store at ", info.store_host, " port ", info.store_port));
    }
    if (Clock::now() > deadline) {
      return Status::error(
          Code::deadline_exceeded,
          text("rank ", info.rank, " found no rendezvous store at ", info.store_host, " port ",
               info.store_port),
          text("the system says: ", why),
          "check that rank 0 runs and that MASTER_ADDR and MASTER_PORT are those of its host");
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

StoreClient::StoreClient(FileDescriptor socket, const RankInfo& info, const Activity& activity,
                         Options options)
    : socket_(std::move(socket)), info_(info), activity_(activity), options_(std::move(options)) {
  MGT_INIT(&table_);
  table_.context = this;
  table_.set = [](void* self, mgt_str key, const void* value, uint64_t size) {
    return guarded([&] {
      return static_cast<StoreClient*>(self)->set(from_abi(key),
                                                  {static_cast<const char*>(value), size});
    });
  };
  table_.get = [](void* self, mgt_str key, uint64_t timeout_ms, void* value, uint64_t capacity,
                  uint64_t* size) {
    return guarded([&]() -> Status {
      MGT_ASSIGN_OR_RETURN(const std::string found, static_cast<StoreClient*>(self)->get(
                                                        from_abi(key), milliseconds(timeout_ms)));
      *size = found.size();
      std::memcpy(value, found.data(), std::min<size_t>(found.size(), capacity));
      return {};
    });
  };
  thread_ = start_thread("heartbeats", [this] { run(); });
}

StoreClient::~StoreClient() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  thread_.join();
}

// Says hello, then reads what the store says and sends heartbeats. A broken connection shows when
// reading.
void StoreClient::run() {
  static_cast<void>(send(
      {MessageType::hello,
       {info_.token, std::to_string(info_.rank), std::to_string(info_.world_size), host_name()}}));
  MessageBuffer buffer;
  auto next_heartbeat = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    if (now >= next_heartbeat) {
      static_cast<void>(send({MessageType::heartbeat, {activity_.get()}}));
      next_heartbeat = now + options_.heartbeat;
    }
    pollfd fd{socket_.get(), POLLIN, 0};
    const auto wait = std::chrono::duration_cast<milliseconds>(next_heartbeat - now).count();
    const int ready = ::poll(&fd, 1, static_cast<int>(std::max<int64_t>(wait, 1)));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    char bytes[65536];
    const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      bool expected = false;
      {
        const std::lock_guard lock(mutex_);
        expected = stop_ || leaving_;
      }
      if (!expected)
        abort(
            "the connection to the rendezvous store broke: rank 0, or the network to its host, is "
            "gone");
      return;
    }
    buffer.append(bytes, static_cast<size_t>(n));
    for (;;) {
      auto message = buffer.next();
      if (!message.ok()) return abort(std::string(message.status().message()));
      if (!message->has_value()) break;
      handle(**message);
    }
  }
}

void StoreClient::handle(const Message& m) {
  const auto field = [&](size_t i) { return i < m.fields.size() ? m.fields[i] : std::string(); };
  if (m.type == MessageType::abort || m.type == MessageType::refused) return abort(field(0));
  {
    const std::lock_guard lock(mutex_);
    if (m.type == MessageType::welcome) values_["\x01welcome"] = "";
    if (m.type == MessageType::value) values_[field(0)] = field(1);
    if (m.type == MessageType::state_list) {
      states_ = m.fields;
      ++state_lists_;
    }
  }
  changed_.notify_all();
}

void StoreClient::abort(std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_.empty()) return;
    reason_ = std::move(reason);
  }
  changed_.notify_all();
  if (options_.on_abort) options_.on_abort(abort_reason());
}

std::string StoreClient::abort_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

Status StoreClient::send(const Message& message) {
  const std::string bytes = encode(message);
  const std::lock_guard lock(send_mutex_);
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::send(socket_.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return Status(Code::unavailable,
                    text("cannot reach the rendezvous store: ", std::strerror(errno)));
    at += static_cast<size_t>(n);
  }
  return {};
}

Status StoreClient::set(std::string_view key, std::string_view value) {
  return send({MessageType::set, {std::string(key), std::string(value)}});
}

Result<std::string> StoreClient::get(std::string_view key, milliseconds timeout) {
  const auto known = [&] { return !reason_.empty() || values_.contains(key); };
  std::unique_lock lock(mutex_);
  if (!known()) {
    lock.unlock();
    if (!key.starts_with('\x01')) MGT_RETURN_IF_ERROR(send({MessageType::get, {std::string(key)}}));
    lock.lock();
    if (!changed_.wait_for(lock, timeout, known)) {
      return Status::error(
          Code::deadline_exceeded,
          text("rank ", info_.rank, " waited ", timeout.count(), " ms for '", key, "'"),
          "no rank has set it", "look at what the other ranks print");
    }
  }
  if (!reason_.empty()) return Status(Code::aborted, reason_);
  const auto it = values_.find(key);
  std::string value = it->second;
  values_.erase(it);
  return value;
}

Status StoreClient::barrier(std::string_view name, milliseconds timeout) {
  MGT_RETURN_IF_ERROR(set(text("barrier/", name, "/", info_.rank), "here"));
  for (uint32_t r = 0; r < info_.world_size; ++r) {
    auto here = get(text("barrier/", name, "/", r), timeout);
    if (!here.ok()) return std::move(here).status();
  }
  return {};
}

Result<std::vector<std::string>> StoreClient::states(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const uint64_t before = state_lists_;
  lock.unlock();
  MGT_RETURN_IF_ERROR(send({MessageType::states, {}}));
  lock.lock();
  if (!changed_.wait_for(lock, timeout, [&] { return state_lists_ != before; })) {
    return Status(Code::deadline_exceeded, "the rendezvous store does not answer");
  }
  return states_;
}

void StoreClient::fail(std::string_view report) {
  static_cast<void>(
      send({MessageType::failure, {std::string(report)}}));  // without a store nobody can be told
}

void StoreClient::goodbye() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  static_cast<void>(send({MessageType::goodbye, {}}));
}

}  // namespace megatron::launch
