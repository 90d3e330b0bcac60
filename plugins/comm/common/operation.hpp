// An operation as a group keeps it while it is under way: mgt_collective with its strings and lists
// owned, its buffers measured in bytes and its deadline as a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "megatron/abi/comm.h"
#include "megatron/status.hpp"

namespace megatron::comm {

// Of the option `timeout`: a year, in seconds.
inline constexpr double kMaxTimeout = 365 * 86400;

using Clock = std::chrono::steady_clock;

struct Operation {
  mgt_collective_kind kind = 0;
  mgt_dtype dtype = 0;
  mgt_reduce_op reduce = 0;  // 0 where nothing is reduced
  bool ordered = false;
  uint32_t peer = 0;
  uint64_t tag = 0;
  uint64_t count = 0;
  size_t element_size = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::vector<uint64_t> send_counts, recv_counts;  // of MGT_ALL_TO_ALL_V
  std::string name;
  std::chrono::milliseconds timeout{};
  Clock::time_point deadline{};

  bool point_to_point() const { return kind == MGT_SEND || kind == MGT_RECV; }
  bool reduces() const { return kind == MGT_ALL_REDUCE || kind == MGT_REDUCE_SCATTER; }
  uint64_t bytes() const { return count * element_size; }
};

// Copies what a caller passes to `start` into `out`, whose memory is used again, and checks it. The
// error names the operation and the group.
Status fill_operation(Operation& out, const mgt_collective& collective, std::string_view group,
                      uint32_t ranks, uint32_t rank, std::chrono::milliseconds default_timeout,
                      Clock::time_point now);

std::string_view kind_name(mgt_collective_kind kind);
// "all_reduce 'step 3: bucket 0'"
std::string title(const Operation& operation);
// "all_reduce 'x' of 1024 f32 (sum)": what ranks must agree on.
std::string signature_text(mgt_collective_kind kind, mgt_dtype dtype, mgt_reduce_op reduce,
                           uint64_t count, uint32_t peer, std::string_view name);
std::string signature_text(const Operation& operation);
// Equal on all ranks that start the same collective.
uint64_t signature_hash(const Operation& operation);

// "rank 3", "ranks 0, 1 and 5", "no rank"
std::string rank_list(const std::vector<uint32_t>& ranks);
std::string seconds_text(std::chrono::milliseconds time);

// DEADLINE_EXCEEDED with who arrived and who did not (ranks of the world).
Status deadline_report(const Operation& operation, std::string_view group, uint32_t reporting_rank,
                       const std::vector<uint32_t>& arrived, const std::vector<uint32_t>& missing);

// FAILED_PRECONDITION: two ranks (of the world) are at different collectives of one group.
Status mismatch_report(uint32_t rank, std::string_view ours, uint32_t other_rank,
                       std::string_view theirs);

}  // namespace megatron::comm
