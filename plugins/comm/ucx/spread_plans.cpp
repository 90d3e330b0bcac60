// The plans of the collectives that span hosts.
#include <algorithm>
#include <numeric>

#include "spread_collective.hpp"

namespace megatron::ucx {
namespace {

// Up to here, partners send each other everything: one exchange instead of two.
constexpr uint64_t kOneExchange = uint64_t{32} << 10;

bool is_16_bit(mgt_dtype dtype) { return dtype == MGT_DTYPE_F16 || dtype == MGT_DTYPE_BF16; }

}  // namespace

void SpreadCollective::plan() {
  c_.scratch.begin();
  switch (o_.kind) {
    case MGT_ALL_REDUCE:
      return plan_all_reduce();
    case MGT_REDUCE_SCATTER:
      return plan_reduce_scatter();
    case MGT_ALL_GATHER:
      return plan_all_gather();
    case MGT_ALL_TO_ALL:
    case MGT_ALL_TO_ALL_V:
      return plan_all_to_all();
    case MGT_BROADCAST:
      return plan_broadcast();
    default:
      return plan_barrier();
  }
}

// Sum within the host, then slice by slice between hosts, then the slices within the host. 16-bit
// types travel as f32 in between: they are rounded once, as within a host.
void SpreadCollective::plan_all_reduce() {
  if (o_.ordered && !c_.hosts.aligned) return plan_flat_all_reduce();
  const bool wide = is_16_bit(o_.dtype);
  const mgt_dtype dtype = wide ? MGT_DTYPE_F32 : o_.dtype;
  const uint64_t size = wide ? sizeof(float) : size_;
  const auto hosts = c_.hosts.hosts.size();
  c_.scratch.reserve((wide ? Scratch::rounded(o_.count * size) : 0) + o_.count * size +
                     hosts * (kOneExchange + 256));
  std::byte* work = wide ? c_.scratch.take(o_.count * size) : o_.recv;
  const bool alone = c_.hosts.own().size() == 1;
  if (wide) add_convert(o_.dtype, dtype, o_.send, work, o_.count);
  if (!alone) {
    add_local(MGT_ALL_REDUCE, dtype, wide ? work : o_.send, work, o_.count);
  } else if (!wide && o_.send != work) {
    add_compute([this, work] { comm::copy_bytes(work, o_.send, o_.bytes()); });
  }
  plan_slices(dtype, work);
  if (wide) add_convert(dtype, o_.dtype, work, o_.recv, o_.count);
}

void SpreadCollective::plan_slices(mgt_dtype dtype, std::byte* work) {
  const auto& hosts = c_.hosts.hosts;
  const uint64_t size = dtype == o_.dtype ? size_ : sizeof(float);
  size_t slices = hosts[0].size();
  for (const auto& h : hosts) slices = std::min(slices, h.size());
  const uint32_t index = c_.hosts.own_index;
  if (index < slices) {
    const Range slice = share(o_.count, slices, index, size);
    std::byte* const mine = work + slice.begin * size;
    const uint64_t h_count = hosts.size(), h_own = c_.hosts.own_host;
    const bool whole = slice.size() * size <= kOneExchange;
    const auto part = [&](uint64_t h) {
      return whole ? Range{0, slice.size()} : share(slice.size(), h_count, h, size);
    };
    const Range own = part(h_own);
    // What this rank adds up: its part of the slice from every host, in the order of hosts.
    std::vector<const std::byte*> sources(h_count, mine + own.begin * size);
    std::vector<Part> parts;
    for (uint64_t h = 0; h < h_count; ++h) {
      if (h == h_own) continue;
      std::byte* room = c_.scratch.take(own.size() * size);
      sources[h] = room;
      const uint32_t peer = hosts[h][index];
      parts.push_back(from(peer, room, own.size() * size));
      parts.push_back(to(peer, mine + part(h).begin * size, part(h).size() * size));
    }
    add_exchange(std::move(parts));
    std::byte* target = mine + own.begin * size;
    add_compute([=, this] {
      comm::reduce({dtype, dtype, o_.reduce, o_.ordered}, sources, {&target, 1}, own.size());
    });
    if (!whole) {
      std::vector<Part> results;
      for (uint64_t h = 0; h < h_count; ++h) {
        if (h == h_own) continue;
        const uint32_t peer = hosts[h][index];
        results.push_back(from(peer, mine + part(h).begin * size, part(h).size() * size));
        results.push_back(to(peer, target, own.size() * size));
      }
      add_exchange(std::move(results));
    }
  }
  if (c_.hosts.own().size() == 1) return;
  for (uint32_t i = 0; i < slices; ++i) {
    const Range slice = share(o_.count, slices, i, size);
    std::byte* at = work + slice.begin * size;
    if (slice.size() > 0) add_local(MGT_BROADCAST, dtype, at, at, slice.size(), i);
  }
}

// Every rank gets its share from all others as it is, so that any tree over the ranks can be built.
void SpreadCollective::plan_flat_all_reduce() {
  const Range own = share(o_.count, n_, self_, size_);
  c_.scratch.reserve(n_ * Scratch::rounded(own.size() * size_));
  std::vector<const std::byte*> sources(n_, o_.send + own.begin * size_);
  std::vector<Part> parts, results;
  std::byte* target = o_.recv + own.begin * size_;
  for (uint32_t k = 1; k < n_; ++k) {
    const uint32_t p = (self_ + k) % n_;
    std::byte* room = c_.scratch.take(own.size() * size_);
    sources[p] = room;
    const Range theirs = share(o_.count, n_, p, size_);
    parts.push_back(from(p, room, own.size() * size_));
    parts.push_back(to(p, o_.send + theirs.begin * size_, theirs.size() * size_));
    results.push_back(from(p, o_.recv + theirs.begin * size_, theirs.size() * size_));
    results.push_back(to(p, target, own.size() * size_));
  }
  add_exchange(std::move(parts));
  add_compute([=, this] {
    comm::reduce({o_.dtype, o_.dtype, o_.reduce, o_.ordered}, sources, {&target, 1}, own.size());
  });
  add_exchange(std::move(results));
}

// Sums of all blocks within the host, then each block's partial sums go to its rank.
void SpreadCollective::plan_reduce_scatter() {
  const auto& hosts = c_.hosts.hosts;
  const bool by_host = c_.hosts.regular && hosts.size() < n_ && (!o_.ordered || c_.hosts.aligned);
  const bool wide = by_host && is_16_bit(o_.dtype);
  const mgt_dtype dtype = wide ? MGT_DTYPE_F32 : o_.dtype;
  const uint64_t size = wide ? sizeof(float) : size_;
  const uint64_t bytes = o_.count * size;
  std::vector<uint32_t> partners(n_);
  std::iota(partners.begin(), partners.end(), 0u);
  if (by_host) {
    partners.clear();
    for (const auto& h : hosts) partners.push_back(h[c_.hosts.own_index]);
  }
  c_.scratch.reserve((by_host ? Scratch::rounded(n_ * bytes) : 0) +
                     partners.size() * Scratch::rounded(bytes));
  const std::byte* blocks = o_.send;
  if (by_host) {
    std::byte* work = c_.scratch.take(n_ * bytes);
    if (wide) add_convert(o_.dtype, dtype, o_.send, work, n_ * o_.count);
    add_local(MGT_ALL_REDUCE, dtype, wide ? work : o_.send, work, n_ * o_.count);
    blocks = work;
  }
  std::vector<const std::byte*> sources;
  std::vector<Part> parts;
  for (const uint32_t p : partners) {
    if (p == self_) {
      sources.push_back(blocks + self_ * bytes);
      continue;
    }
    std::byte* room = c_.scratch.take(bytes);
    sources.push_back(room);
    parts.push_back(from(p, room, bytes));
    parts.push_back(to(p, blocks + p * bytes, bytes));
  }
  add_exchange(std::move(parts));
  add_compute([=, this] {
    std::byte* target = o_.recv;
    comm::reduce({dtype, o_.dtype, o_.reduce, o_.ordered}, sources, {&target, 1}, o_.count);
  });
}

// With several ranks a host, each fetches the blocks of its partners; the host then shares them.
void SpreadCollective::plan_all_gather() {
  const auto& hosts = c_.hosts.hosts;
  const uint64_t bytes = o_.bytes();
  std::byte* own = o_.recv + self_ * bytes;
  const bool by_host = c_.hosts.regular && hosts.size() < n_;
  if (!by_host) {
    std::vector<Part> parts;
    for (uint32_t k = 1; k < n_; ++k) {
      const uint32_t p = (self_ + k) % n_;
      parts.push_back(from(p, o_.recv + p * bytes, bytes));
      parts.push_back(to(p, o_.send, bytes));
    }
    add_exchange(std::move(parts));
    add_compute([=, this] {
      if (own != o_.send) comm::copy_bytes(own, o_.send, bytes);
    });
    return;
  }
  const uint64_t column = hosts.size() * bytes;  // of the ranks with this index
  c_.scratch.reserve(2 * Scratch::rounded(column) + Scratch::rounded(n_ * bytes));
  std::byte* mine = c_.scratch.take(column);
  std::byte* all = c_.scratch.take(n_ * bytes);
  std::vector<Part> parts;
  for (uint32_t h = 0; h < hosts.size(); ++h) {
    if (h == c_.hosts.own_host) continue;
    const uint32_t peer = hosts[h][c_.hosts.own_index];
    parts.push_back(from(peer, mine + h * bytes, bytes));
    parts.push_back(to(peer, o_.send, bytes));
  }
  add_exchange(std::move(parts));
  add_compute([=, this] { comm::copy_bytes(mine + c_.hosts.own_host * bytes, o_.send, bytes); });
  add_local(MGT_ALL_GATHER, o_.dtype, mine, all, hosts.size() * o_.count);
  add_compute([=, this] {
    for (uint32_t p = 0; p < n_; ++p) {
      const std::byte* from = all + c_.hosts.index_of[p] * column + c_.hosts.host_of[p] * bytes;
      comm::copy_bytes(o_.recv + p * bytes, from, bytes);
    }
  });
}

void SpreadCollective::plan_all_to_all() {
  const bool v = o_.kind == MGT_ALL_TO_ALL_V;
  std::vector<uint64_t> send_at(n_ + 1), recv_at(n_ + 1);  // bytes
  for (uint32_t p = 0; p < n_; ++p) {
    send_at[p + 1] = send_at[p] + (v ? o_.send_counts[p] : o_.count) * size_;
    recv_at[p + 1] = recv_at[p] + (v ? o_.recv_counts[p] : o_.count) * size_;
  }
  std::vector<Part> parts;
  for (uint32_t k = 1; k < n_; ++k) {
    const uint32_t p = (self_ + k) % n_;
    parts.push_back(from(p, o_.recv + recv_at[p], recv_at[p + 1] - recv_at[p]));
    parts.push_back(to(p, o_.send + send_at[p], send_at[p + 1] - send_at[p]));
  }
  add_exchange(std::move(parts));
  add_compute([=, this] {
    comm::copy_bytes(o_.recv + recv_at[self_], o_.send + send_at[self_],
                     send_at[self_ + 1] - send_at[self_]);
  });
}

// From the root to one rank of each other host, and on within the hosts.
void SpreadCollective::plan_broadcast() {
  const auto& hosts = c_.hosts.hosts;
  const uint32_t root_host = c_.hosts.host_of[o_.peer];
  std::byte* data = o_.recv;
  std::vector<Part> parts;
  uint32_t source = 0;  // member of the own host
  if (root_host == c_.hosts.own_host) {
    source = c_.hosts.index_of[o_.peer];
    for (uint32_t h = 0; h < hosts.size() && self_ == o_.peer; ++h) {
      if (h != root_host) parts.push_back(to(hosts[h][0], data, o_.bytes()));
    }
  } else if (c_.hosts.own_index == 0) {
    parts.push_back(from(o_.peer, data, o_.bytes()));
  }
  if (!parts.empty()) add_exchange(std::move(parts));
  if (c_.hosts.own().size() > 1) {
    add_local(MGT_BROADCAST, o_.dtype, data, data, o_.count, source);
  }
}

void SpreadCollective::plan_barrier() {
  const bool alone = c_.hosts.own().size() == 1;
  if (!alone) add_local(MGT_BARRIER, o_.dtype, nullptr, nullptr, 0);
  if (c_.hosts.own_index == 0) {
    std::vector<Part> parts;
    for (uint32_t h = 0; h < c_.hosts.hosts.size(); ++h) {
      if (h == c_.hosts.own_host) continue;
      parts.push_back(from(c_.hosts.hosts[h][0], nullptr, 0));
      parts.push_back(to(c_.hosts.hosts[h][0], nullptr, 0));
    }
    add_exchange(std::move(parts));
  }
  if (!alone) add_local(MGT_BARRIER, o_.dtype, nullptr, nullptr, 0);
}

}  // namespace megatron::ucx
