// Messages between hosts over UCX active messages. Every function is called with the engine's lock
// held; callbacks run inside progress().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "message.hpp"

namespace megatron::ucx {

// A short message outside the order of data: questions, answers, bad news.
struct Control {
  enum Kind : uint32_t { hello = 1, query, answer, failure, goodbye };
  uint32_t kind = 0;
  uint32_t group = 0;     // serial number
  uint32_t source = 0;    // rank of the world
  uint32_t code = 0;      // of a failure
  uint64_t sequence = 0;  // query: of which collective; answer: how many were started
  std::string text = {};  // of a failure
};

class Network {
 public:
  struct Options {
    std::string transports, devices;  // UCX_TLS, UCX_NET_DEVICES; "": UCX decides
  };
  static Result<std::unique_ptr<Network>> create(uint32_t rank, const Options& options);
  ~Network();

  // What the other ranks need to reach this one.
  const std::string& address() const { return address_; }
  void add_peer(uint32_t rank, std::string address);

  // `peer`: rank of the world. An unreachable one shows in `message->error`.
  void send(uint32_t group, uint32_t peer, Message* message);
  void recv(uint32_t group, uint32_t peer, Message* message);
  void control(uint32_t peer, Control control);
  // The messages of this group are of no interest any more; endpoints that still read or write
  // their buffers are closed.
  void forget(uint32_t group);
  void say_goodbye();

  bool progress();  // true when something moved
  bool arm();       // false: there is news, do not sleep
  int descriptor() const { return event_fd_; }

  std::function<void(const Control&)> on_control;
  std::function<void(uint32_t rank, bool orderly)> on_gone;

 private:
  struct Peer;
  struct Sending;
  struct Receiving;
  struct Flow {  // one direction of one key with one peer
    uint32_t group, peer;
    MessageKey key;
    auto operator<=>(const Flow&) const = default;
  };
  struct Slot {  // of one message of a flow
    Flow flow;
    uint64_t number;
    auto operator<=>(const Slot&) const = default;
  };
  struct Early {  // came before its recv
    std::string bytes;
    void* rendezvous = nullptr;  // UCX's descriptor, or null when `bytes` is everything
    uint64_t size = 0;
    uint64_t signature = 0;
    std::string signature_text;
  };

  explicit Network(uint32_t rank);
  Status endpoint(uint32_t rank, Peer*& out);
  void close(Peer& peer);
  void gone(Peer& peer);
  void start(std::unique_ptr<Sending> sending, Peer& peer);
  bool accept(Message& message, uint32_t peer, uint64_t size, uint64_t signature,
              const std::string& signature_text);
  void fetch(void* descriptor, const Slot& slot, Message* message);
  int incoming_data(const void* header, size_t header_size, void* data, size_t size,
                    bool rendezvous);
  int incoming_control(const void* header, size_t header_size);

  struct Library;  // UCX's handles
  uint32_t rank_;
  std::string address_;
  std::unique_ptr<Library> library_;
  int event_fd_ = -1;
  bool moved_ = false;
  std::map<uint32_t, Peer> peers_;
  std::map<Flow, uint64_t> sent_, wanted_;  // numbers of the next message
  std::map<Slot, Message*> posted_;
  std::map<Slot, Early> early_;
  std::list<std::unique_ptr<Sending>> sending_;
  std::list<std::unique_ptr<Receiving>> receiving_;
  std::vector<Control> news_;  // handed out at the end of progress()
  std::vector<std::pair<uint32_t, bool>> lost_;
};

}  // namespace megatron::ucx
