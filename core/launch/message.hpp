// Messages between ranks and the rendezvous store: a length, a type, and strings, each with its
// length.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::launch {

enum class MessageType : uint8_t {
  // rank -> store
  hello = 1,  // token, rank, world size, host name
  set,        // key, value
  get,        // key: answered when it is known
  heartbeat,  // what the rank is doing
  failure,    // the report of a rank that failed
  states,     // asks for what all ranks are doing
  goodbye,    // the rank ends as it should
  // store -> rank
  welcome,
  refused,     // why
  value,       // key, value
  abort,       // why everybody has to stop
  state_list,  // one string a rank
};

struct Message {
  MessageType type;
  std::vector<std::string> fields;
};

std::string encode(const Message& message);

// Collects bytes of a stream and hands out messages.
class MessageBuffer {
 public:
  void append(const char* bytes, size_t count) { bytes_.append(bytes, count); }
  // Nothing: not complete yet. DATA_LOSS: the other side does not speak this protocol.
  Result<std::optional<Message>> next();

 private:
  std::string bytes_;
};

}  // namespace megatron::launch
