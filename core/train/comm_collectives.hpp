// Communication of a rank through a comm plugin: one group for each axis of the mesh.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/abi/comm.h"
#include "passes/layout.hpp"
#include "runtime/collectives.hpp"

namespace megatron::train {

// A comm plugin's instance; owned by whoever made it.
struct CommView {
  const mgt_comm* table = nullptr;
  void* self = nullptr;
};

class CommCollectives final : public runtime::Collectives {
 public:
  // Every rank of the layout makes it at the same time. `activity` hears what the rank is about to
  // do.
  static Result<std::unique_ptr<CommCollectives>> create(
      const CommView& comm, const passes::Layout& layout, int64_t rank,
      std::function<void(std::string_view)> activity);
  ~CommCollectives() override;
  CommCollectives(const CommCollectives&) = delete;
  CommCollectives& operator=(const CommCollectives&) = delete;

  Status run(const runtime::Collective& what, const void* send, void* recv) override;
  Status complete_send(const void* send) override;
  Status gather(std::string_view axis, std::string_view name, std::span<const double> values,
                std::span<double> all) override;

 private:
  struct Group {
    std::string axis;
    uint32_t me = 0;  // coordinate
    uint32_t size = 1;
    void* handle = nullptr;
  };
  struct Sending {
    const void* buffer;
    void* group;
    void* request;
  };
  // A message of a rank to itself: two chunks of a pipeline rank.
  struct OwnMessage {
    uint64_t tag;
    std::vector<char> bytes;
  };

  CommCollectives(const CommView& comm, std::function<void(std::string_view)> activity)
      : comm_(comm), activity_(std::move(activity)) {}
  Group& group_of(std::string_view axis);
  Status complete(void* group, std::span<const mgt_collective> operations);
  void announce(const runtime::Collective& what, const Group& group);
  Status receive_own(uint64_t tag, void* recv);

  CommView comm_;
  std::function<void(std::string_view)> activity_;
  std::vector<Group> groups_;
  std::vector<Sending> sending_;
  std::deque<OwnMessage> own_messages_;
};

}  // namespace megatron::train
