#include "unit/comm/collective_cases.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "megatron/dtype.hpp"
#include "unit/comm/formula.hpp"

namespace megatron::test {
namespace {

struct Case {
  mgt_collective_kind kind;
  mgt_dtype dtype;
  mgt_reduce_op reduce;
  uint64_t count;
  bool in_place, allocated, ordered;
};

std::string describe(const Case& c, const Rank& r) {
  return text("kind ", c.kind, " ", dtype_name(static_cast<DType>(c.dtype)), " reduce ", c.reduce,
              " count ", c.count, c.in_place ? " in place" : "", c.allocated ? " allocated" : "",
              c.ordered ? " ordered" : "", ", rank ", r.rank(), " of ", r.size());
}

int64_t reduced(const Case& c, uint32_t ranks, uint64_t i) {
  int64_t out = value_at(0, i);
  for (uint32_t r = 1; r < ranks; ++r) {
    const int64_t v = value_at(r, i);
    out = c.reduce == MGT_REDUCE_SUM ? out + v : std::max(out, v);
  }
  return out;
}

// Buffers of a case; the room is allocated once per rank, since allocations are collective.
struct Buffers {
  std::byte *send, *recv;
};

void run_case(const Rank& r, const GroupHandle& g, const Case& c, Buffers b) {
  const uint32_t n = r.size(), me = r.rank();
  const size_t size = dtype_size(static_cast<DType>(c.dtype));
  const uint64_t sent =
      c.kind == MGT_REDUCE_SCATTER || c.kind == MGT_ALL_TO_ALL ? n * c.count : c.count;
  const uint64_t received =
      c.kind == MGT_ALL_GATHER || c.kind == MGT_ALL_TO_ALL ? n * c.count : c.count;
  std::byte* send = b.send;
  std::byte* recv = b.recv;
  if (c.in_place) {
    send = recv = b.recv;
    if (c.kind == MGT_ALL_GATHER) send = recv + me * c.count * size;
    if (c.kind == MGT_REDUCE_SCATTER) recv = send + me * c.count * size;
  }
  if (!c.in_place) std::memset(recv, 0x5a, received * size);
  const uint32_t root = n - 1;
  if (c.kind == MGT_BROADCAST) {
    for (uint64_t i = 0; i < c.count; ++i)
      put(c.dtype, recv, i, value_at(me == root ? 100 : me, i));
  } else {
    for (uint64_t i = 0; i < sent; ++i) put(c.dtype, send, i, value_at(me, i));
  }
  auto o = operation(c.kind, c.dtype, send, recv, c.count);
  o.reduce = c.reduce;
  o.peer = root;
  o.flags = c.ordered ? MGT_COLLECTIVE_ORDERED : 0;
  const Status status = g.run({o});
  ASSERT_TRUE(status.ok()) << describe(c, r) << "\n" << status.message();
  for (uint64_t i = 0; i < received; ++i) {
    int64_t expected = 0;
    switch (c.kind) {
      case MGT_ALL_REDUCE:
        expected = reduced(c, n, i);
        break;
      case MGT_REDUCE_SCATTER:
        expected = reduced(c, n, me * c.count + i);
        break;
      case MGT_ALL_GATHER:
        expected = value_at(static_cast<uint32_t>(i / c.count), i % c.count);
        break;
      case MGT_ALL_TO_ALL:
        expected = value_at(static_cast<uint32_t>(i / c.count), me * c.count + i % c.count);
        break;
      default:
        expected = value_at(100, i);
    }
    ASSERT_TRUE(holds(c.dtype, recv, i, expected)) << describe(c, r) << ", element " << i;
  }
  if (!c.in_place && c.kind != MGT_BROADCAST) {
    for (uint64_t i = 0; i < sent; ++i)
      ASSERT_TRUE(holds(c.dtype, send, i, value_at(me, i))) << "send changed: " << describe(c, r);
  }
}

// Block from rank a to rank b.
uint64_t block_of(uint32_t a, uint32_t b, uint64_t scale) { return (a * 3 + b * 5) % 4 * scale; }

void run_all_to_all_v(const Rank& r, const GroupHandle& g, uint64_t scale, Buffers b) {
  const uint32_t n = r.size(), me = r.rank();
  std::vector<uint64_t> sends(n), recvs(n);
  uint64_t sent = 0, received = 0;
  for (uint32_t i = 0; i < n; ++i) {
    sent += sends[i] = block_of(me, i, scale);
    received += recvs[i] = block_of(i, me, scale);
  }
  auto* send = reinterpret_cast<int32_t*>(b.send);
  auto* recv = reinterpret_cast<int32_t*>(b.recv);
  for (uint64_t i = 0; i < sent; ++i) send[i] = static_cast<int32_t>(me * 1'000'000 + i);
  std::memset(recv, 0x5a, received * 4);
  auto o = operation(MGT_ALL_TO_ALL_V, MGT_DTYPE_I32, send, recv, 0);
  o.send_counts = sends.data();
  o.recv_counts = recvs.data();
  const Status status = g.run({o});
  ASSERT_TRUE(status.ok()) << status.message();
  uint64_t at = 0;
  for (uint32_t i = 0; i < n; ++i) {
    uint64_t first = 0;
    for (uint32_t j = 0; j < me; ++j) first += block_of(i, j, scale);
    for (uint64_t k = 0; k < recvs[i]; ++k, ++at) {
      ASSERT_EQ(recv[at], static_cast<int32_t>(i * 1'000'000 + first + k))
          << "from rank " << i << " element " << k << " scale " << scale;
    }
  }
}

}  // namespace

void run_collective_cases(Rank& rank, const GroupHandle& group, CaseLimits limits) {
  constexpr mgt_collective_kind kKinds[] = {MGT_ALL_REDUCE, MGT_REDUCE_SCATTER, MGT_ALL_GATHER,
                                            MGT_ALL_TO_ALL, MGT_BROADCAST};
  constexpr mgt_dtype kTypes[] = {MGT_DTYPE_F32, MGT_DTYPE_BF16, MGT_DTYPE_F16, MGT_DTYPE_I32,
                                  MGT_DTYPE_I64};
  // Around the limits of inline (8 KiB) and of a round (256 KiB), in elements of 4 bytes.
  std::vector<uint64_t> sizes = {0, 1, 2, 17, 333, 2048, 2049, 4099};
  if (limits.large) sizes.insert(sizes.end(), {65536, 65537, (1 << 18) + 3});
  const uint64_t room = (sizes.back() + 64) * 8 * rank.size();
  std::vector<std::byte> plain(2 * room);
  Buffers memories[2] = {{plain.data(), plain.data() + room}, {}};
  if (limits.allocated) {
    auto* all = rank.allocate<std::byte>(2 * room);
    memories[1] = {all, all + room};
  }
  for (const bool allocated : {false, true}) {
    if (allocated && !limits.allocated) continue;
    const Buffers b = memories[allocated ? 1 : 0];
    for (const auto kind : kKinds) {
      for (const auto dtype : kTypes) {
        for (const uint64_t count : sizes) {
          // The large sizes cost most of the time, and moving bytes does not depend on the type.
          if (count > 5000 && dtype != MGT_DTYPE_F32 && dtype != MGT_DTYPE_BF16) continue;
          const bool reduces = kind == MGT_ALL_REDUCE || kind == MGT_REDUCE_SCATTER;
          if (!reduces && dtype != MGT_DTYPE_F32 && dtype != MGT_DTYPE_F16) continue;
          for (const bool in_place : {false, true}) {
            if (in_place && kind == MGT_ALL_TO_ALL) continue;
            const Case c{kind, dtype, MGT_REDUCE_SUM, count, in_place, allocated, false};
            run_case(rank, group, c, b);
            if (reduces && count < 5000) {
              run_case(rank, group,
                       {kind, dtype, MGT_REDUCE_MAX, count, in_place, allocated, false}, b);
              run_case(rank, group, {kind, dtype, MGT_REDUCE_SUM, count, in_place, allocated, true},
                       b);
            }
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
    for (const uint64_t scale : {0, 1, 100, limits.large ? 50'001 : 3001}) {
      run_all_to_all_v(rank, group, scale, b);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
  const Status status = group.run({operation(MGT_BARRIER, 0, nullptr, nullptr, 0)});
  ASSERT_TRUE(status.ok()) << status.message();
}

void run_ordered_cases(Rank& rank, const GroupHandle& group) {
  const uint32_t n = rank.size();
  // Of very different size: another association gives other bits.
  const auto at = [](uint32_t r, uint64_t i) {
    return std::ldexp(1.0f + static_cast<float>((i * 31 + r * 17) % 97) / 97.0f,
                      static_cast<int>((r * 7 + i * 5) % 21) - 10);
  };
  const std::function<float(uint32_t, uint32_t, uint64_t)> tree = [&](uint32_t first,
                                                                      uint32_t count, uint64_t i) {
    if (count == 1) return at(first, i);
    const uint32_t left = std::bit_floor(count - 1);
    return tree(first, left, i) + tree(first + left, count - left, i);
  };
  for (const uint64_t count : {1, 100, 5000, 200'003}) {
    std::vector<float> x(count);
    for (uint64_t i = 0; i < count; ++i) x[i] = at(rank.rank(), i);
    auto o = operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x.data(), x.data(), count);
    o.flags = MGT_COLLECTIVE_ORDERED;
    const Status status = group.run({o});
    ASSERT_TRUE(status.ok()) << status.message();
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(x[i], tree(0, n, i)) << "element " << i;
    // reduce_scatter has the same bits.
    std::vector<float> whole(count * n), mine(count);
    for (uint64_t i = 0; i < count * n; ++i) whole[i] = at(rank.rank(), i);
    o = operation(MGT_REDUCE_SCATTER, MGT_DTYPE_F32, whole.data(), mine.data(), count);
    o.flags = MGT_COLLECTIVE_ORDERED;
    const Status scattered = group.run({o});
    ASSERT_TRUE(scattered.ok()) << scattered.message();
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_EQ(mine[i], tree(0, n, rank.rank() * count + i)) << "element " << i;
    }
  }
}

}  // namespace megatron::test
