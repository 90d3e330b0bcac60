#include "launch/message.hpp"

#include <cstring>

namespace megatron::launch {
namespace {

constexpr uint32_t kMaxMessage = 64U << 20;  // bytes; anything longer is not this protocol

void put(std::string& out, uint32_t n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); }

uint32_t take(std::string_view& in) {
  uint32_t n = 0;
  std::memcpy(&n, in.data(), sizeof n);
  in.remove_prefix(sizeof n);
  return n;
}

Status malformed(std::string_view cause) {
  return Status::error(Code::data_loss,
                       "the other end of a rendezvous connection sent something else", cause,
                       "check MASTER_ADDR and MASTER_PORT: another program may listen there");
}

}  // namespace

std::string encode(const Message& message) {
  std::string body(1, static_cast<char>(message.type));
  for (const auto& field : message.fields) {
    put(body, static_cast<uint32_t>(field.size()));
    body += field;
  }
  std::string out;
  put(out, static_cast<uint32_t>(body.size()));
  return out + body;
}

Result<std::optional<Message>> MessageBuffer::next() {
  if (bytes_.size() < sizeof(uint32_t)) return std::optional<Message>();
  std::string_view in = bytes_;
  const uint32_t size = take(in);
  if (size == 0 || size > kMaxMessage) return malformed(text("a message claims ", size, " bytes"));
  if (in.size() < size) return std::optional<Message>();
  in = in.substr(0, size);
  Message message{static_cast<MessageType>(in[0]), {}};
  in.remove_prefix(1);
  while (!in.empty()) {
    if (in.size() < sizeof(uint32_t)) return malformed("a message ends inside a length");
    const uint32_t field = take(in);
    if (field > in.size()) return malformed("a field is longer than its message");
    message.fields.emplace_back(in.substr(0, field));
    in.remove_prefix(field);
  }
  bytes_.erase(0, sizeof(uint32_t) + size);
  return std::optional(std::move(message));
}

}  // namespace megatron::launch
