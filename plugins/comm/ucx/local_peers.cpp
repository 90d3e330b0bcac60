#include "local_peers.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace megatron::ucx {
namespace {

Status system_error(std::string_view what, int error) {
  return Status::error(Code::unavailable, what, text("the system says: ", std::strerror(error)),
                       "raise the limit of open files (`ulimit -n`) if that is the cause");
}

// False: the time is up.
bool wait_readable(int fd, LocalPeers::Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          deadline - std::chrono::steady_clock::now())
                          .count();
    if (left <= 0) return false;
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

sockaddr_un abstract(const std::string& name, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t n = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), n);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
  return address;
}

Status not_connected(uint32_t rank, uint32_t peer, std::string_view cause) {
  return Status::error(Code::deadline_exceeded,
                       text("rank ", rank, " cannot connect with rank ", peer, " of this host"),
                       cause, "look at the output of that rank");
}

}  // namespace

Result<LocalPeers> LocalPeers::listen(uint32_t rank) {
  LocalPeers out;
  out.rank_ = rank;
  out.listener_ = FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (out.listener_.get() < 0) return system_error("cannot open a Unix socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof(sa_family_t);  // no name: the kernel picks a free abstract one
  if (::bind(out.listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(out.listener_.get(), 1024) != 0) {
    return system_error("cannot listen on a Unix socket", errno);
  }
  size = sizeof address;
  ::getsockname(out.listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  out.address_.assign(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
  return out;
}

Status LocalPeers::connect(const std::vector<LocalAddress>& peers, Deadline deadline) {
  for (const auto& address : peers) peers_.push_back({address, FileDescriptor(), {}, false});
  // To those below; those above come here. Every listener exists: its name was published.
  uint32_t above = 0;
  for (auto& peer : peers_) {
    if (peer.address.rank > rank_) ++above;
    if (peer.address.rank >= rank_) continue;
    peer.socket = FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    socklen_t size = 0;
    const auto address = abstract(peer.address.socket, size);
    if (peer.socket.get() < 0) return system_error("cannot open a Unix socket", errno);
    if (::connect(peer.socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      return not_connected(rank_, peer.address.rank,
                           text("the system says: ", std::strerror(errno)));
    }
    const PeerMessage hello{PeerMessage::hello, rank_, 0, 0};
    if (::send(peer.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
      return not_connected(rank_, peer.address.rank, "it closed the connection");
    }
  }
  while (above > 0) {
    if (!wait_readable(listener_.get(), deadline)) {
      const auto missing = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) {
        return p.address.rank != rank_ && p.socket.get() < 0;
      });
      return not_connected(rank_, missing->address.rank, "it did not appear in time");
    }
    FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) return system_error("cannot accept a connection", errno);
    ucred credentials{};
    socklen_t size = sizeof credentials;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size);
    PeerMessage hello{};
    if (!wait_readable(socket.get(), deadline) ||
        ::recv(socket.get(), &hello, sizeof hello, 0) != sizeof hello) {
      continue;
    }
    // A stranger can guess a rank but not a process number.
    const auto peer = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& p) {
      return p.address.rank == hello.serial && p.address.process == credentials.pid;
    });
    if (hello.kind != PeerMessage::hello || peer == peers_.end() || peer->socket.get() >= 0)
      continue;
    peer->socket = std::move(socket);
    --above;
  }
  listener_.close();
  return {};
}

Status LocalPeers::send(uint32_t peer, const PeerMessage& message, int fd) {
  PeerMessage copy = message;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  if (::sendmsg(peers_[peer].socket.get(), &header, MSG_NOSIGNAL) == sizeof copy) return {};
  return Status::error(Code::unavailable,
                       text("rank ", rank_, " cannot reach rank ", peers_[peer].address.rank),
                       text("the system says: ", std::strerror(errno)),
                       "look at the output of that rank: its process ended");
}

Status LocalPeers::read_one(Peer& peer) {
  PeerMessage message{};
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = ::recvmsg(peer.socket.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {Code::not_found, "no message"};
  if (n != sizeof message) {
    return Status::error(Code::unavailable, text("rank ", peer.address.rank, " is gone"),
                         "its process ended", "look at the output of that rank");
  }
  FileDescriptor fd;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int value = -1;
    std::memcpy(&value, CMSG_DATA(c), sizeof value);
    fd = FileDescriptor(value);
  }
  if (message.kind == PeerMessage::goodbye) peer.left = true;
  peer.inbox.emplace_back(message, std::move(fd));
  return {};
}

Result<FileDescriptor> LocalPeers::receive(uint32_t index, const PeerMessage& expected,
                                           Deadline deadline) {
  Peer& peer = peers_[index];
  for (;;) {
    std::unique_lock lock(*mutex_);
    for (auto at = peer.inbox.begin(); at != peer.inbox.end(); ++at) {
      if (at->first.kind != expected.kind || at->first.serial != expected.serial) continue;
      if (at->first.bytes != expected.bytes || at->first.hash != expected.hash) {
        return Status::error(
            Code::failed_precondition,
            text("ranks ", rank_, " and ", peer.address.rank, " do not agree on ",
                 expected.kind == PeerMessage::group ? "group" : "allocation", " number ",
                 expected.serial),
            text("one has ", expected.bytes, " bytes, the other ", at->first.bytes,
                 expected.bytes == at->first.bytes ? "; name or members differ" : ""),
            "every rank must create the same groups and allocations in the same order");
      }
      FileDescriptor fd = std::move(at->second);
      peer.inbox.erase(at);
      return fd;
    }
    const Status read = read_one(peer);
    if (read.ok()) continue;
    if (read.code() != Code::not_found) return read;
    lock.unlock();
    if (!wait_readable(peer.socket.get(), deadline)) {
      return Status::error(
          Code::deadline_exceeded,
          text("rank ", peer.address.rank, " did not come to ",
               expected.kind == PeerMessage::group ? "create group" : "allocate memory", " number ",
               expected.serial),
          text("rank ", rank_, " waited for it until the time was up"),
          "look at the output of that rank; every rank must create the same groups and "
          "allocations");
    }
  }
}

bool LocalPeers::said_goodbye(uint32_t index) {
  const std::lock_guard lock(*mutex_);
  Peer& peer = peers_[index];
  while (!peer.left && read_one(peer).ok()) {
  }
  return peer.left;
}

void LocalPeers::say_goodbye() {
  for (auto& peer : peers_) {
    const PeerMessage goodbye{PeerMessage::goodbye, 0, 0, 0};
    if (peer.socket.get() >= 0) {
      static_cast<void>(
          ::send(peer.socket.get(), &goodbye, sizeof goodbye, MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }
}

}  // namespace megatron::ucx
