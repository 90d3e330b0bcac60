// Messages from one rank to another of the same host, in the order of their sends for each tag.
// Small ones are copied into the channel at once; a large one is read by the receiver where it
// lies, or streams through the channel when it lies in private memory.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "message.hpp"
#include "team.hpp"

namespace megatron::ucx {

class ShmSender {
 public:
  ShmSender(Team& team, uint32_t to) : team_(team), to_(to) {}
  void push(Message* message) { waiting_.push_back(message); }
  bool progress();

 private:
  struct Reading {  // the receiver still reads the message's buffer
    Message* message;
    uint64_t number;
  };
  Team& team_;
  uint32_t to_;
  uint64_t next_ = 0;    // cell
  uint64_t offset_ = 0;  // bytes of the first waiting message that are in the channel
  std::deque<Message*> waiting_;
  std::vector<Reading> reading_;
};

class ShmReceiver {
 public:
  ShmReceiver(Team& team, uint32_t from) : team_(team), from_(from) {}
  void push(Message* message);
  // FAILED_PRECONDITION: both sides disagree on the size.
  Result<bool> progress();

 private:
  struct Early {  // came before its recv, and something behind it was wanted
    std::vector<std::byte> bytes;
    bool complete = false;
  };

  Result<bool> take(const Cell& cell);

  Team& team_;
  uint32_t from_;
  uint64_t next_ = 0;    // cell
  uint64_t copied_ = 0;  // bytes of a direct message
  std::deque<Message*> wanted_;
  // Where the message that is coming in goes: one of the two.
  Message* target_ = nullptr;
  Early* early_target_ = nullptr;
  std::map<MessageKey, std::deque<Early>> early_;
};

}  // namespace megatron::ucx
