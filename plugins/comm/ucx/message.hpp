// A message between two ranks of a group, however it travels.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "common/operation.hpp"

namespace megatron::ucx {

// Messages of one key arrive in the order of their sends.
struct MessageKey {
  uint32_t stream = kUser;  // whose tags: the caller's, or those inside collectives
  uint64_t tag = 0;
  auto operator<=>(const MessageKey&) const = default;

  static constexpr uint32_t kUser = 0, kCollective = 1;
};

// The owner keeps it, and its operation, until `done` or `error`.
struct Message {
  MessageKey key;
  const std::byte* send = nullptr;  // one of the two
  std::byte* recv = nullptr;
  uint64_t bytes = 0;
  const comm::Operation* operation = nullptr;
  bool done = false;
  Status error;
};

// Both sides disagree on the size of a message.
inline Status size_mismatch(const Message& recv, uint32_t receiver, uint64_t bytes,
                            uint32_t sender) {
  return Status::error(Code::failed_precondition,
                       text(comm::title(*recv.operation), ": rank ", sender, " sent ", bytes,
                            " bytes, rank ", receiver, " expects ", recv.bytes),
                       text("both messages have the tag ", recv.key.tag),
                       "every send needs a recv of the same size, in the same order for each tag");
}

}  // namespace megatron::ucx
