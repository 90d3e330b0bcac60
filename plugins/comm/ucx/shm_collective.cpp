#include "shm_collective.hpp"

#include <algorithm>
#include <cstring>

namespace megatron::ucx {
namespace {

// Of one step, so that other work gets its turn and nobody who starts something has to wait long.
constexpr uint64_t kPiece = uint64_t{256} << 10;
constexpr uint64_t kLine = 64;
constexpr uint64_t kWarmBytes = 2048;

// Fetches a line for writing. Without it the next announcement begins by taking its lines back from
// the ranks that read them last.
void prefetch_for_writing(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

}  // namespace

ShmCollective::ShmCollective(Team& team, const comm::Operation& operation, uint64_t sequence)
    : team_(team),
      o_(operation),
      sequence_(sequence),
      n_(team.size()),
      self_(team.self()),
      p_(team.pointers()) {
  if (o_.kind == MGT_ALL_TO_ALL_V) {
    send_displacement_.assign(n_ + 1, 0);
    recv_displacement_.assign(n_ + 1, 0);
    for (uint32_t i = 0; i < n_; ++i) {
      send_displacement_[i + 1] = send_displacement_[i] + o_.send_counts[i];
      recv_displacement_[i + 1] = recv_displacement_[i] + o_.recv_counts[i];
    }
  }
}

uint64_t ShmCollective::inline_bytes() const {
  switch (o_.kind) {
    case MGT_BARRIER:
      return 0;
    case MGT_ALL_REDUCE:
    case MGT_ALL_GATHER:
    case MGT_BROADCAST:
      return o_.bytes();
    case MGT_REDUCE_SCATTER:
    case MGT_ALL_TO_ALL:
      return o_.bytes() * n_;
    default:
      return ~uint64_t{0};  // all_to_all_v: the payload carries the counts
  }
}

// Decided alike by all ranks without a look at where the buffers lie.
bool ShmCollective::always_inline() const {
  return inline_bytes() <= (team_.exchanges_are_slow() ? kInlineBytes : kAlwaysInlineBytes);
}

void ShmCollective::write_entry(Entry& entry) const {
  uint64_t send_bytes = o_.bytes(), recv_bytes = o_.bytes();
  if (o_.kind == MGT_REDUCE_SCATTER || o_.kind == MGT_ALL_TO_ALL) send_bytes *= n_;
  if (o_.kind == MGT_ALL_GATHER || o_.kind == MGT_ALL_TO_ALL) recv_bytes *= n_;
  const bool everywhere = always_inline();
  bool in_payload = everywhere;
  if (!everywhere) {
    entry.extent = 0;
    if (o_.kind == MGT_ALL_TO_ALL_V) {
      std::memcpy(entry.payload, o_.send_counts.data(), n_ * sizeof(uint64_t));
      entry.extent = *std::max_element(o_.send_counts.begin(), o_.send_counts.end());
      send_bytes = send_displacement_[n_] * o_.element_size;
      recv_bytes = recv_displacement_[n_] * o_.element_size;
    }
    entry.send = team_.find(o_.send, send_bytes);
    entry.recv = team_.find(o_.recv, recv_bytes);
    in_payload = entry.send.segment == 0 && fits_inline();
    if (in_payload) entry.send.segment = kInPayload;
    if (send_bytes == 0) entry.send.segment = kNoData;
  }
  const bool needed = o_.kind != MGT_BROADCAST || o_.peer == self_;
  if (in_payload && needed && send_bytes > 0) comm::copy_bytes(entry.payload, o_.send, send_bytes);
  auto& d = entry.description;
  d.kind = o_.kind;
  d.dtype = o_.dtype;
  d.reduce = o_.reduce;
  d.peer = o_.peer;
  d.count = o_.count;
  d.name_size = static_cast<uint32_t>(std::min(o_.name.size(), sizeof d.name));
  std::memcpy(d.name, o_.name.data(), d.name_size);
}

bool ShmCollective::post() {
  if (posted_) return false;
  if (sequence_ >= kEntries) {  // the entry's former collective: finished here and everywhere?
    const uint64_t former = sequence_ - kEntries + 1;
    if (team_.count(Team::finished) < former || !team_.reached(Team::finished, former))
      return false;
  }
  Entry& entry = team_.own().entry(sequence_);
  write_entry(entry);
  arrival_ = arrival_of(sequence_, comm::signature_hash(o_));
  entry.arrival.store(arrival_, std::memory_order_release);
  team_.ring_all();
  posted_ = true;
  return true;
}

Result<bool> ShmCollective::match() {
  for (; matched_ < n_; ++matched_) {
    const uint64_t theirs =
        team_.memory(matched_).entry(sequence_).arrival.load(std::memory_order_acquire);
    if (theirs == arrival_) continue;
    if (number_of(theirs) != number_of(arrival_)) {
      warm_next_entry();
      return false;
    }
    return mismatch(matched_);
  }
  MGT_RETURN_IF_ERROR(choose_path());
  return true;
}

// While others are awaited, there is time.
void ShmCollective::warm_next_entry() {
  if (warmed_) return;
  warmed_ = true;
  const Entry& next = team_.own().entry(sequence_ + 1);
  prefetch_for_writing(&next.arrival);
  const uint64_t bytes = std::min(inline_bytes(), kWarmBytes);
  for (uint64_t at = 0; at < bytes; at += kLine) prefetch_for_writing(next.payload + at);
}

Status ShmCollective::mismatch(uint32_t member) const {
  const auto& d = team_.memory(member).entry(sequence_).description;
  return comm::mismatch_report(
      team_.rank(self_), comm::signature_text(o_), team_.rank(member),
      comm::signature_text(d.kind, d.dtype, d.reduce, d.count, d.peer, {d.name, d.name_size}));
}

Status ShmCollective::choose_path() {
  started_ = true;
  if (always_inline()) {
    path_ = Path::inline_;
    return {};
  }
  bool payloads = true, sends = true, receives = true;
  uint64_t extent = 0;
  for (uint32_t i = 0; i < n_; ++i) {
    const Entry& entry = team_.memory(i).entry(sequence_);
    const bool source = o_.kind != MGT_BROADCAST || i == o_.peer;
    payloads = payloads && entry.send.segment == kInPayload;
    sends = sends && ((entry.send.segment != 0 && entry.send.segment != kInPayload) || !source);
    receives = receives && entry.recv.segment != 0;
    extent = std::max(extent, entry.extent);
  }
  if (payloads) {
    path_ = Path::inline_;
    return {};
  }
  if (o_.kind == MGT_ALL_TO_ALL_V) {
    remote_displacement_.assign(n_, 0);
    for (uint32_t i = 0; i < n_; ++i) {
      uint64_t counts[kInlineBytes / sizeof(uint64_t)];
      std::memcpy(counts, team_.memory(i).entry(sequence_).payload, (self_ + 1) * sizeof(uint64_t));
      for (uint32_t j = 0; j < self_; ++j) remote_displacement_[i] += counts[j];
      if (counts[self_] == o_.recv_counts[i]) continue;
      return Status::error(
          Code::failed_precondition,
          text(comm::title(o_), ": rank ", team_.rank(i), " sends ", counts[self_],
               " elements, rank ", team_.rank(self_), " expects ", o_.recv_counts[i]),
          "the counts of both sides differ", "exchange the counts before the data");
    }
  }
  // Results of an all_reduce are written into the others' buffers; all other kinds only read them.
  path_ = sends && (receives || o_.kind != MGT_ALL_REDUCE) ? Path::direct : Path::staged;
  if (path_ == Path::direct) {
    base_direct_ = team_.count(Team::direct);
    p_.sends.clear();
    p_.recvs.clear();
    for (uint32_t i = 0; i < n_; ++i) {
      const Entry& entry = team_.memory(i).entry(sequence_);
      p_.sends.push_back(i == self_ ? const_cast<std::byte*>(o_.send)
                                    : team_.address(i, entry.send));
      p_.recvs.push_back(i == self_ ? o_.recv : team_.address(i, entry.recv));
      const bool elsewhere = entry.send.segment == kNoData || entry.send.segment == 0;
      const bool freed = (p_.sends[i] == nullptr && !elsewhere) ||
                         (o_.kind == MGT_ALL_REDUCE && p_.recvs[i] == nullptr);
      if (freed && i != self_) {
        return Status::error(Code::failed_precondition,
                             text(comm::title(o_), ": rank ", team_.rank(i),
                                  " passes memory that rank ", team_.rank(self_), " has freed"),
                             "allocations are shared", "free them on all ranks at the same point");
      }
    }
    part_ = self_;
    return {};
  }
  base_staged_ = team_.count(Team::staged);
  base_reduced_ = team_.count(Team::reduced);
  base_consumed_ = team_.count(Team::consumed);
  const bool blocks =
      o_.kind == MGT_REDUCE_SCATTER || o_.kind == MGT_ALL_TO_ALL || o_.kind == MGT_ALL_TO_ALL_V;
  per_round_ = kStageBytes / (blocks ? n_ : 1) / kLine * kLine / o_.element_size;
  const uint64_t elements = o_.kind == MGT_ALL_TO_ALL_V ? extent : o_.count;
  rounds_ = (elements + per_round_ - 1) / per_round_;
  return {};
}

ShmCollective::Range ShmCollective::share(uint64_t count, uint32_t i) const {
  const uint64_t line = std::max<uint64_t>(kLine / o_.element_size, 1);
  const uint64_t each = ((count + n_ - 1) / n_ + line - 1) / line * line;
  return {std::min(i * each, count), std::min((i + 1) * each, count)};
}

comm::Reduction ShmCollective::reduction() const {
  return {o_.dtype, o_.dtype, o_.reduce, o_.ordered};
}

uint64_t ShmCollective::block(uint32_t member) const { return member * o_.bytes(); }

Result<bool> ShmCollective::step() {
  bool moved = post();
  if (!posted_) return false;
  if (!started_) {
    MGT_ASSIGN_OR_RETURN(const bool all, match());
    if (!all) return moved;
    moved = true;
  }
  switch (path_) {
    case Path::inline_:
      run_inline();
      return true;
    case Path::direct:
      return step_direct() || moved;
    case Path::staged:
      return step_staged() || moved;
  }
  return moved;
}

void ShmCollective::finish() {
  finished_ = true;
  team_.publish(Team::finished, sequence_ + 1);
  // Only a rank that is kEntries ahead waits for this; it need not be woken each time.
  if ((sequence_ + 1) % (kEntries / 2) == 0) team_.ring_all();
}

void ShmCollective::run_inline() {
  const uint64_t bytes = o_.bytes();
  p_.sources.clear();
  for (uint32_t i = 0; i < n_; ++i) {
    const std::byte* payload = team_.memory(i).entry(sequence_).payload;
    switch (o_.kind) {
      case MGT_ALL_REDUCE:
        p_.sources.push_back(payload);
        break;
      case MGT_REDUCE_SCATTER:
        p_.sources.push_back(payload + block(self_));
        break;
      case MGT_ALL_GATHER:
        comm::copy_bytes(o_.recv + block(i), payload, bytes);
        break;
      case MGT_ALL_TO_ALL:
        comm::copy_bytes(o_.recv + block(i), payload + block(self_), bytes);
        break;
      case MGT_BROADCAST:
        if (i == o_.peer && i != self_) comm::copy_bytes(o_.recv, payload, bytes);
        break;
      default:
        break;
    }
  }
  if (!p_.sources.empty()) {
    std::byte* target = o_.recv;
    comm::reduce(reduction(), p_.sources, {&target, 1}, o_.count);
  }
  finish();
}

// Each rank reduces, or fetches, its share. Buffers may be touched by their owners again once all
// are through.
bool ShmCollective::step_direct() {
  bool moved = false;
  if (!share_done_) {
    share_done_ = !direct_piece();
    moved = true;
    if (share_done_) {
      team_.publish(Team::direct, base_direct_ + 1);
      team_.ring_all();
    }
  }
  if (share_done_) {
    const bool others_read_mine = o_.kind != MGT_BROADCAST || o_.peer == self_;
    if (!others_read_mine || team_.reached(Team::direct, base_direct_ + 1)) {
      finish();
      moved = true;
    }
  }
  return moved;
}

bool ShmCollective::direct_piece() {
  const uint64_t size = o_.element_size;
  if (o_.reduces()) {
    const bool all = o_.kind == MGT_ALL_REDUCE;
    const Range mine = all ? share(o_.count, self_) : Range{0, o_.count};
    const uint64_t begin = mine.begin + done_;
    const uint64_t count = std::min(mine.end - std::min(begin, mine.end), kPiece / size);
    p_.sources.clear();
    p_.targets.clear();
    for (uint32_t i = 0; i < n_; ++i) {
      p_.sources.push_back(send_of(i) + (all ? 0 : block(self_)) + begin * size);
      if (all) p_.targets.push_back(p_.recvs[i] + begin * size);
    }
    if (!all) p_.targets.push_back(o_.recv + begin * size);
    comm::reduce(reduction(), p_.sources, p_.targets, count);
    done_ += count;
    return begin + count < mine.end;
  }
  // Copies: from every member's buffer, beginning with the own one, so that no two ranks start at
  // the same place.
  std::byte* to = o_.recv;
  const std::byte* from = nullptr;
  uint64_t bytes = o_.bytes();
  switch (o_.kind) {
    case MGT_ALL_GATHER:
      from = send_of(part_);
      to += block(part_);
      break;
    case MGT_ALL_TO_ALL:
      from = send_of(part_) + block(self_);
      to += block(part_);
      break;
    case MGT_ALL_TO_ALL_V:
      bytes = o_.recv_counts[part_] * size;
      to += recv_displacement_[part_] * size;
      if (bytes > 0) from = send_of(part_) + remote_displacement_[part_] * size;
      break;
    default:  // MGT_BROADCAST
      part_ = o_.peer;
      from = send_of(part_);
      break;
  }
  const uint64_t piece = std::min(bytes - done_, kPiece);
  if (piece > 0) copy(to + done_, from + done_, piece);
  done_ += piece;
  if (done_ < bytes) return true;
  if (o_.kind == MGT_BROADCAST) return false;
  done_ = 0;
  part_ = (part_ + 1) % n_;
  return part_ != self_;
}

void ShmCollective::arrivals(std::vector<uint32_t>& arrived, std::vector<uint32_t>& missing) const {
  for (uint32_t i = 0; i < n_; ++i) {
    // An entry that was used again means that the rank is far ahead.
    const uint64_t at = team_.memory(i).entry(sequence_).arrival.load(std::memory_order_acquire);
    const auto ahead = static_cast<int32_t>(number_of(at) - static_cast<uint32_t>(sequence_));
    (i == self_ || ahead > 0 ? arrived : missing).push_back(team_.rank(i));
  }
}

bool ShmCollective::needs(uint32_t rank) const {
  for (uint32_t i = 0; i < n_; ++i) {
    if (team_.rank(i) == rank)
      return team_.memory(i).progress().finished.value.load(std::memory_order_acquire) <= sequence_;
  }
  return false;
}

}  // namespace megatron::ucx
