#include "train/comm_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "megatron/philox.hpp"

namespace megatron::train {
namespace {

constexpr std::string_view kOwner = "the comm plugin";

mgt_collective operation(mgt_collective_kind kind, DType dtype, std::string_view name) {
  mgt_collective op;
  MGT_INIT(&op);
  op.kind = kind;
  op.dtype = static_cast<mgt_dtype>(dtype);
  op.reduce = MGT_REDUCE_SUM;
  op.name = to_abi(name);
  return op;
}

}  // namespace

Result<std::unique_ptr<CommCollectives>> CommCollectives::create(
    const CommView& comm, const passes::Layout& layout, int64_t rank,
    std::function<void(std::string_view)> activity) {
  std::unique_ptr<CommCollectives> out(new CommCollectives(comm, std::move(activity)));
  const auto mine = layout.coordinates(rank);
  for (size_t m = 0; m < layout.axes.size(); ++m) {
    const auto& axis = layout.axes[m];
    if (axis.size == 1) continue;
    std::vector<uint32_t> ranks;
    for (int64_t r = 0; r < layout.world_size(); ++r) {
      auto there = layout.coordinates(r);
      there[m] = mine[m];
      if (there == mine) ranks.push_back(static_cast<uint32_t>(r));
    }
    Group group;
    group.axis = axis.name;
    group.me = static_cast<uint32_t>(mine[m]);
    group.size = static_cast<uint32_t>(axis.size);
    MGT_RETURN_IF_ERROR(
        from_abi(comm.table->group(comm.self, to_abi(group.axis), ranks.data(),
                                   static_cast<uint32_t>(ranks.size()), &group.handle),
                 kOwner));
    out->groups_.push_back(std::move(group));
  }
  return out;
}

CommCollectives::~CommCollectives() {
  for (const auto& s : sending_)  // a run that failed: nobody may be there any more
    static_cast<void>(from_abi(comm_.table->wait(s.group, s.request), kOwner));
  for (const auto& group : groups_) comm_.table->release_group(comm_.self, group.handle);
}

CommCollectives::Group& CommCollectives::group_of(std::string_view axis) {
  const auto it =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.axis == axis; });
  MGT_CHECK(it != groups_.end(), axis);
  return *it;
}

void CommCollectives::announce(const runtime::Collective& what, const Group& group) {
  if (!activity_) return;
  std::array<char, 160> line;  // no allocation in a step
  const auto end = fmt::format_to_n(line.data(), line.size(), "{} '{}' over mesh axis '{}'",
                                    what.op, what.name, group.axis);
  activity_({line.data(), std::min(line.size(), end.size)});
}

Status CommCollectives::complete(void* group, std::span<const mgt_collective> operations) {
  void* request = nullptr;
  MGT_RETURN_IF_ERROR(
      from_abi(comm_.table->start(group, operations.data(), operations.size(), &request), kOwner));
  return from_abi(comm_.table->wait(group, request), kOwner);
}

Status CommCollectives::run(const runtime::Collective& what, const void* send, void* recv) {
  const Group& group = group_of(what.axis);
  announce(what, group);
  mgt_collective op = operation(MGT_BARRIER, what.dtype, what.name);
  op.send = send;
  op.recv = recv;
  op.tag = site_of(what.name);
  if (what.reduce == graph::Reduce::max) op.reduce = MGT_REDUCE_MAX;
  const auto peer = static_cast<uint32_t>(what.peer);
  if (what.op == "send") {
    if (peer == group.me) {
      const auto* bytes = static_cast<const char*>(send);
      const auto size = static_cast<size_t>(what.send_elements) * dtype_size(what.dtype);
      own_messages_.push_back({op.tag, {bytes, bytes + size}});
      return {};
    }
    op.kind = MGT_SEND;
    op.peer = peer;
    op.count = static_cast<uint64_t>(what.send_elements);
    void* request = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(comm_.table->start(group.handle, &op, 1, &request), kOwner));
    sending_.push_back({send, group.handle, request});
    return {};
  }
  if (what.op == "recv") {
    if (peer == group.me) return receive_own(op.tag, recv);
    op.kind = MGT_RECV;
    op.peer = peer;
    op.count = static_cast<uint64_t>(what.recv_elements);
  } else if (what.op == "ring_shift") {
    const auto size = static_cast<int64_t>(group.size);
    const auto wrap = [&](int64_t r) { return static_cast<uint32_t>(((r % size) + size) % size); };
    std::array<mgt_collective, 2> both{op, op};
    both[0].kind = MGT_SEND;
    both[0].peer = wrap(group.me + what.offset);
    both[0].count = static_cast<uint64_t>(what.send_elements);
    both[1].kind = MGT_RECV;
    both[1].peer = wrap(group.me - what.offset);
    both[1].count = static_cast<uint64_t>(what.recv_elements);
    return complete(group.handle, both);
  } else if (what.op == "all_reduce") {
    op.kind = MGT_ALL_REDUCE;
    op.count = static_cast<uint64_t>(what.send_elements);
  } else if (what.op == "reduce_scatter") {
    op.kind = MGT_REDUCE_SCATTER;
    op.count = static_cast<uint64_t>(what.recv_elements);
  } else if (what.op == "all_gather") {
    op.kind = MGT_ALL_GATHER;
    op.count = static_cast<uint64_t>(what.send_elements);
  } else {
    MGT_CHECK(what.op == "all_to_all", what.op);
    op.kind = MGT_ALL_TO_ALL;
    op.count = static_cast<uint64_t>(what.send_elements) / group.size;
  }
  return complete(group.handle, {&op, 1});
}

Status CommCollectives::receive_own(uint64_t tag, void* recv) {
  const auto it = std::find_if(own_messages_.begin(), own_messages_.end(),
                               [&](const OwnMessage& m) { return m.tag == tag; });
  MGT_CHECK(it != own_messages_.end(), "a chunk waits for another one of its rank");
  std::memcpy(recv, it->bytes.data(), it->bytes.size());
  own_messages_.erase(it);
  return {};
}

Status CommCollectives::complete_send(const void* send) {
  for (size_t i = 0; i < sending_.size();) {
    if (sending_[i].buffer != send) {
      ++i;
      continue;
    }
    const Sending s = sending_[i];
    sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i));
    MGT_RETURN_IF_ERROR(from_abi(comm_.table->wait(s.group, s.request), kOwner));
  }
  return {};
}

Status CommCollectives::gather(std::string_view axis, std::string_view name,
                               std::span<const double> values, std::span<double> all) {
  const Group& group = group_of(axis);
  announce({.op = "all_gather", .axis = axis, .name = name}, group);
  // Bits are moved, not numbers: an element type of the same size that every back end has.
  mgt_collective op = operation(MGT_ALL_GATHER, DType::i64, name);
  op.send = values.data();
  op.recv = all.data();
  op.count = values.size();
  return complete(group.handle, {&op, 1});
}

}  // namespace megatron::train
