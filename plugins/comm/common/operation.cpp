#include "operation.hpp"

#include <cstring>

#include "megatron/dtype.hpp"
#include "reduce.hpp"

namespace megatron::comm {
namespace {

struct KindRow {
  mgt_collective_kind kind;
  std::string_view name;
};
constexpr KindRow kKinds[] = {
    {MGT_ALL_REDUCE, "all_reduce"},
    {MGT_REDUCE_SCATTER, "reduce_scatter"},
    {MGT_ALL_GATHER, "all_gather"},
    {MGT_ALL_TO_ALL, "all_to_all"},
    {MGT_ALL_TO_ALL_V, "all_to_all_v"},
    {MGT_BROADCAST, "broadcast"},
    {MGT_SEND, "send"},
    {MGT_RECV, "recv"},
    {MGT_BARRIER, "barrier"},
};

Status refuse(const Operation& o, std::string_view group, std::string_view cause) {
  return invalid_argument(text(title(o), " of group '", group, "' cannot start"), cause,
                          "correct the operation that the caller passes to `start`");
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdu;
}

}  // namespace

std::string_view kind_name(mgt_collective_kind kind) {
  for (const auto& row : kKinds) {
    if (row.kind == kind) return row.name;
  }
  return "operation";
}

Status fill_operation(Operation& o, const mgt_collective& c, std::string_view group, uint32_t ranks,
                      uint32_t rank, std::chrono::milliseconds default_timeout,
                      Clock::time_point now) {
  o.kind = c.kind;
  o.dtype = c.dtype;
  o.reduce = 0;
  o.ordered = (c.flags & MGT_COLLECTIVE_ORDERED) != 0;
  o.peer = c.peer;
  o.tag = c.tag;
  o.count = c.count;
  o.element_size = dtype_size(static_cast<DType>(c.dtype));
  o.send = static_cast<const std::byte*>(c.send);
  o.recv = static_cast<std::byte*>(c.recv);
  o.send_counts.clear();
  o.recv_counts.clear();
  o.name = from_abi(c.name);
  o.timeout = c.timeout_ms > 0 ? std::chrono::milliseconds(c.timeout_ms) : default_timeout;
  o.deadline = now + o.timeout;
  if (c.kind < MGT_ALL_REDUCE || c.kind > MGT_BARRIER) {
    return Status::error(Code::unimplemented,
                         text("operation kind ", c.kind, " of group '", group, "' is unknown"),
                         "this plugin was built for an older host", "rebuild the plugin");
  }
  if (c.kind == MGT_BARRIER) {
    o.count = 0;
    o.dtype = MGT_DTYPE_U8;
    o.element_size = 1;
    return {};
  }
  if (o.element_size == 0) return refuse(o, group, text("dtype ", c.dtype, " is unknown"));
  const bool to_peer = o.point_to_point() || c.kind == MGT_BROADCAST;
  if (to_peer && c.peer >= ranks) {
    return refuse(o, group, text("peer ", c.peer, " is not among its ", ranks, " ranks"));
  }
  if (!to_peer) o.peer = 0;
  if (o.point_to_point() && c.peer == rank && ranks == 1) {
    return refuse(o, group, "a group of one rank has nobody to talk to");
  }
  if (o.reduces()) {
    o.reduce = c.reduce;
    if (c.reduce != MGT_REDUCE_SUM && c.reduce != MGT_REDUCE_MAX) {
      return refuse(o, group, text("reduction ", c.reduce, " is unknown"));
    }
    if (!can_reduce({c.dtype, c.dtype, c.reduce, o.ordered})) {
      return refuse(o, group, text(dtype_name(static_cast<DType>(c.dtype)), " cannot be added up"));
    }
  }
  uint64_t sends = c.count, receives = c.count;
  if (c.kind == MGT_ALL_TO_ALL_V) {
    if (c.send_counts == nullptr || c.recv_counts == nullptr) {
      return refuse(o, group, "send_counts or recv_counts is null");
    }
    o.count = 0;
    o.send_counts.assign(c.send_counts, c.send_counts + ranks);
    o.recv_counts.assign(c.recv_counts, c.recv_counts + ranks);
    sends = receives = 0;
    for (const uint64_t n : o.send_counts) sends += n;
    for (const uint64_t n : o.recv_counts) receives += n;
  }
  const bool uses_send = c.kind != MGT_BROADCAST && c.kind != MGT_RECV;
  const bool uses_recv = c.kind != MGT_SEND;
  if (uses_send && sends > 0 && c.send == nullptr) return refuse(o, group, "`send` is null");
  if (uses_recv && receives > 0 && c.recv == nullptr) return refuse(o, group, "`recv` is null");
  if (c.kind == MGT_BROADCAST) o.send = o.recv;
  return {};
}

std::string title(const Operation& o) { return text(kind_name(o.kind), " '", o.name, "'"); }

std::string signature_text(mgt_collective_kind kind, mgt_dtype dtype, mgt_reduce_op reduce,
                           uint64_t count, uint32_t peer, std::string_view name) {
  std::string out = text(kind_name(kind), " '", name, "'");
  if (kind == MGT_BARRIER) return out;
  if (kind != MGT_ALL_TO_ALL_V) out += text(" of ", count);
  out += text(" ", dtype_name(static_cast<DType>(dtype)));
  if (reduce == MGT_REDUCE_SUM) out += " (sum)";
  if (reduce == MGT_REDUCE_MAX) out += " (max)";
  if (kind == MGT_BROADCAST) out += text(" from the group's rank ", peer);
  return out;
}

std::string signature_text(const Operation& o) {
  return signature_text(o.kind, o.dtype, o.reduce, o.count, o.peer, o.name);
}

uint64_t signature_hash(const Operation& o) {
  uint64_t hash = mix(o.kind, o.dtype);
  hash = mix(hash, uint64_t{o.reduce} << 32 | o.peer);
  hash = mix(hash, o.count << 1 | static_cast<uint64_t>(o.ordered));
  size_t i = 0;
  for (; i + 8 <= o.name.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, o.name.data() + i, 8);
    hash = mix(hash, word);
  }
  uint64_t word = o.name.size();
  std::memcpy(&word, o.name.data() + i, o.name.size() - i);
  return mix(mix(hash, word), o.name.size());
}

std::string rank_list(const std::vector<uint32_t>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) out += i + 1 == ranks.size() ? " and " : ", ";
    out += text(ranks[i]);
  }
  return out;
}

std::string seconds_text(std::chrono::milliseconds time) {
  return text(static_cast<double>(time.count()) / 1000, " s");
}

Status deadline_report(const Operation& o, std::string_view group, uint32_t reporting_rank,
                       const std::vector<uint32_t>& arrived, const std::vector<uint32_t>& missing) {
  std::string cause =
      text("arrived: ", rank_list(arrived), "; did not arrive: ", rank_list(missing));
  std::string action = text("look at what ", missing.size() == 1 ? "that rank" : "those ranks",
                            " did last; a slow step needs a longer `timeout`");
  if (missing.empty()) {
    cause =
        text("arrived: ", rank_list(arrived), "; all arrived, but the data did not come through");
    action = "look for a stopped process or a slow network; a slow step needs a longer `timeout`";
  }
  return Status::error(Code::deadline_exceeded,
                       text("rank ", reporting_rank, ": ", title(o), " of group '", group,
                            "' was not complete after ", seconds_text(o.timeout)),
                       cause, action);
}

Status mismatch_report(uint32_t rank, std::string_view ours, uint32_t other_rank,
                       std::string_view theirs) {
  return Status::error(
      Code::failed_precondition,
      text("ranks ", rank, " and ", other_rank, " are at different collectives of the same group"),
      text("rank ", rank, " is at ", ours, "; rank ", other_rank, " is at ", theirs,
           ours == theirs ? " (with another `ordered` flag)" : ""),
      "every rank must start the same collectives in the same order");
}

}  // namespace megatron::comm
