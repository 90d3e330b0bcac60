#include "launch/store_server.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <vector>

#include "launch/message.hpp"
#include "megatron/thread.hpp"

namespace megatron::launch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPollMs = 50;
// How long a stopped run's ranks may take to leave.
constexpr auto kLeaveAfterAbort = std::chrono::seconds(2);

std::string seconds(std::chrono::milliseconds t) {
  return text(static_cast<double>(t.count()) / 1000, " s");
}

}  // namespace

Result<FileDescriptor> listen_on(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int looked_up = getaddrinfo(host.empty() ? nullptr : host.c_str(),
                                    std::to_string(port).c_str(), &hints, &found);
  if (looked_up != 0) {
    return Status::error(
        Code::unavailable, text("cannot serve the rendezvous store on '", host, "'"),
        gai_strerror(looked_up), "set MASTER_ADDR to a name or address of rank 0's host");
  }
  int error = 0;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    FileDescriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    const int on = 1;
    if (socket.get() < 0) continue;
    setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.get(), 1024) == 0) {
      freeaddrinfo(found);
      return socket;
    }
    error = errno;
  }
  freeaddrinfo(found);
  return Status::error(Code::unavailable,
                       text("cannot serve the rendezvous store on ", host, " port ", port),
                       text("the system says: ", std::strerror(error)),
                       "set MASTER_PORT to a free port, the same for all ranks");
}

Result<uint16_t> port_of(const FileDescriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Status(Code::unavailable,
                  text("cannot ask a socket for its port: ", std::strerror(errno)));
  }
  const auto port = address.ss_family == AF_INET6
                        ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                        : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

class StoreServer::Loop {
 public:
  Loop(FileDescriptor listener, StoreOptions options, std::atomic<bool>& stop)
      : listener_(std::move(listener)),
        options_(std::move(options)),
        stop_(stop),
        ranks_(options_.world_size) {}

  void run() {
    started_ = Clock::now();
    while (!stop_) {
      poll_once();
      watch();
    }
    // The store outlives its ranks: to one that is still at its last steps, or has not yet heard
    // why all stop, a closed socket would look like a lost rank 0.
    const auto stopped = Clock::now();
    while (any_rank_here() && Clock::now() - stopped < time_to_leave()) {
      poll_once();
      watch();
    }
    for (auto& c : connections_) flush(*c);
  }

 private:
  struct Connection {
    FileDescriptor socket;
    MessageBuffer in;
    std::string out;
    int rank = -1;  // after a good hello
    bool closed = false;
  };
  struct Rank {
    Connection* connection = nullptr;
    std::string host;
    std::string activity = "starting";
    Clock::time_point heard;
    bool joined = false;
    bool left = false;  // said goodbye
  };

  bool any_rank_here() const {
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& r) { return r.connection != nullptr && !r.left; });
  }
  std::chrono::milliseconds time_to_leave() const {
    return reason_.empty() ? options_.silence_timeout : kLeaveAfterAbort;
  }

  void poll_once() {
    std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
    for (const auto& c : connections_) {
      fds.push_back(
          {c->socket.get(), static_cast<short>(POLLIN | (c->out.empty() ? 0 : POLLOUT)), 0});
    }
    if (::poll(fds.data(), fds.size(), kPollMs) <= 0) return;
    const size_t known = connections_.size();
    for (size_t i = 0; i < known; ++i) {
      Connection& c = *connections_[i];
      if ((fds[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(c);
      if ((fds[i + 1].revents & POLLOUT) != 0) flush(c);
    }
    if ((fds[0].revents & POLLIN) != 0) accept();
    for (auto& c : connections_) {
      if (c->closed) disconnected(*c);
    }
    std::erase_if(connections_, [](const auto& c) { return c->closed; });
  }

  void accept() {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto c = std::make_unique<Connection>();
    c->socket = FileDescriptor(fd);
    connections_.push_back(std::move(c));
  }

  void receive(Connection& c) {
    char bytes[65536];
    for (;;) {
      const ssize_t n = ::recv(c.socket.get(), bytes, sizeof bytes, 0);
      if (n > 0) {
        c.in.append(bytes, static_cast<size_t>(n));
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) c.closed = true;
      break;
    }
    for (;;) {
      auto message = c.in.next();
      if (!message.ok()) {
        c.closed = true;  // a stranger
        return;
      }
      if (!message->has_value()) return;
      handle(c, **message);
    }
  }

  void handle(Connection& c, const Message& m) {
    if (c.rank < 0) return hello(c, m);
    Rank& rank = ranks_[static_cast<size_t>(c.rank)];
    rank.heard = Clock::now();
    const auto field = [&](size_t i) { return i < m.fields.size() ? m.fields[i] : std::string(); };
    switch (m.type) {
      case MessageType::set:
        store(field(0), field(1));
        break;
      case MessageType::get:
        if (const auto it = values_.find(field(0)); it != values_.end()) {
          send(c, {MessageType::value, {it->first, it->second}});
        } else {
          waiting_.emplace(field(0), c.rank);
        }
        break;
      case MessageType::heartbeat:
        rank.activity = field(0);
        break;
      case MessageType::states:
        send(c, {MessageType::state_list, states()});
        break;
      case MessageType::failure:
        abort(field(0));
        break;
      case MessageType::goodbye:
        rank.left = true;
        break;
      default:
        c.closed = true;
        break;
    }
  }

  void hello(Connection& c, const Message& m) {
    const auto refuse = [&](std::string why) {
      send(c, {MessageType::refused, {std::move(why)}});
      flush(c);
    };
    if (m.type != MessageType::hello || m.fields.size() != 4 || m.fields[0] != options_.token) {
      return refuse(
          "the token is not that of this run: another run uses the same address and port");
    }
    uint32_t rank = 0;
    uint32_t world = 0;
    std::from_chars(m.fields[1].data(), m.fields[1].data() + m.fields[1].size(), rank);
    std::from_chars(m.fields[2].data(), m.fields[2].data() + m.fields[2].size(), world);
    if (world != options_.world_size || rank >= world) {
      return refuse(
          text("rank ", rank, " believes in ", world, " ranks, rank 0 in ", options_.world_size));
    }
    if (ranks_[rank].joined)
      return refuse(text("rank ", rank, " has joined already, from host ", ranks_[rank].host));
    c.rank = static_cast<int>(rank);
    ranks_[rank] = {&c, m.fields[3], "joined", Clock::now(), true, false};
    send(c, {MessageType::welcome, {}});
    if (!reason_.empty()) send(c, {MessageType::abort, {reason_}});
  }

  void store(const std::string& key, const std::string& value) {
    values_[key] = value;
    const auto [first, last] = waiting_.equal_range(key);
    for (auto it = first; it != last; ++it) {
      if (Connection* c = ranks_[static_cast<size_t>(it->second)].connection)
        send(*c, {MessageType::value, {key, value}});
    }
    waiting_.erase(first, last);
  }

  void disconnected(Connection& c) {
    if (c.rank < 0) return;
    Rank& rank = ranks_[static_cast<size_t>(c.rank)];
    rank.connection = nullptr;
    if (!rank.left)
      abort(text("rank ", c.rank, " on host ", rank.host,
                 " ended without a word\n  it was last seen at: ", rank.activity));
  }

  // Ranks that never came, and ranks that fell silent.
  void watch() {
    if (!reason_.empty()) return;
    const auto now = Clock::now();
    std::string missing;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      if (!rank.joined) missing += text(missing.empty() ? "" : ", ", r);
      if (rank.joined && !rank.left && rank.connection != nullptr &&
          now - rank.heard > options_.silence_timeout) {
        return abort(text("rank ", r, " on host ", rank.host, " has not been heard of for ",
                          seconds(options_.silence_timeout),
                          "\n  it was last seen at: ", rank.activity));
      }
    }
    if (!missing.empty() && now - started_ > options_.join_timeout) {
      abort(
          text("only ",
               std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.joined; }),
               " of ", ranks_.size(), " ranks joined within ", seconds(options_.join_timeout),
               "\n  missing ranks: ", missing));
    }
  }

  void abort(std::string reason) {
    if (!reason_.empty()) return;  // the first cause is the one that matters
    reason_ = std::move(reason);
    for (auto& c : connections_) {
      if (c->rank >= 0 && !c->closed) {
        send(*c, {MessageType::abort, {reason_}});
        flush(*c);
      }
    }
  }

  std::vector<std::string> states() const {
    std::vector<std::string> out;
    for (const Rank& r : ranks_) out.push_back(r.activity);
    return out;
  }

  static void send(Connection& c, const Message& m) { c.out += encode(m); }
  static void flush(Connection& c) {
    while (!c.out.empty()) {
      const ssize_t n = ::send(c.socket.get(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) c.closed = true;
        return;
      }
      c.out.erase(0, static_cast<size_t>(n));
    }
  }

  FileDescriptor listener_;
  StoreOptions options_;
  std::atomic<bool>& stop_;
  std::vector<Rank> ranks_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::string, std::string> values_;
  std::multimap<std::string, int> waiting_;  // key -> rank
  std::string reason_;                       // why all have to stop; "" while all is well
  Clock::time_point started_;
};

StoreServer::StoreServer(FileDescriptor listener, StoreOptions options)
    : thread_(start_thread("the rendezvous store",
                           [this, l = std::move(listener), o = std::move(options)]() mutable {
                             Loop(std::move(l), std::move(o), stop_).run();
                           })) {}

StoreServer::~StoreServer() {
  stop_ = true;
  thread_.join();
}

}  // namespace megatron::launch
