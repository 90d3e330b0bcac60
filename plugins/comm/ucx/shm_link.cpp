#include "shm_link.hpp"

#include <algorithm>

#include "common/reduce.hpp"

namespace megatron::ucx {
namespace {

// Copied up to here: the sender is through at once. Larger ones are read where they lie if others
// can see them.
constexpr uint64_t kCopied = kCellBytes;
constexpr uint64_t kPiece = uint64_t{512} << 10;

}  // namespace

bool ShmSender::progress() {
  bool moved = false;
  std::erase_if(reading_, [&](const Reading& r) {
    const Cell& cell = team_.own().cell(to_, r.number);
    if (cell.taken.load(std::memory_order_acquire) <= r.number) return false;
    r.message->done = true;
    return moved = true;
  });
  bool posted = false;
  while (!waiting_.empty()) {
    Cell& cell = team_.own().cell(to_, next_);
    if (next_ >= kCells && cell.taken.load(std::memory_order_acquire) != next_ - kCells + 1) break;
    // Before the cell is used again, its former message must have been noticed as read.
    if (std::any_of(reading_.begin(), reading_.end(),
                    [&](const Reading& r) { return r.number + kCells == next_; })) {
      break;
    }
    Message& message = *waiting_.front();
    const uint64_t bytes = message.bytes;
    cell.key = message.key;
    cell.total = bytes;
    cell.offset = offset_;
    cell.source = bytes > kCopied ? team_.find(message.send, bytes) : Location{};
    if (cell.source.segment != 0) {
      cell.kind = Cell::direct;
      cell.bytes = 0;
      reading_.push_back({&message, next_});
      offset_ = bytes;
    } else {
      cell.kind = Cell::copied;
      cell.bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes - offset_, kCellBytes));
      comm::copy_bytes(cell.payload, message.send + offset_, cell.bytes);
      offset_ += cell.bytes;
      if (offset_ == bytes) message.done = true;
    }
    cell.posted.store(++next_, std::memory_order_release);
    if (offset_ == bytes) {
      waiting_.pop_front();
      offset_ = 0;
    }
    posted = true;
  }
  if (posted) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    team_.ring(to_);
  }
  return moved || posted;
}

void ShmReceiver::push(Message* message) { wanted_.push_back(message); }

Result<bool> ShmReceiver::progress() {
  bool moved = false;
  for (;;) {
    // What came early is older than anything in the channel.
    for (auto at = wanted_.begin(); at != wanted_.end();) {
      Message& m = **at;
      const auto early = early_.find(m.key);
      if (early == early_.end() || !early->second.front().complete) {
        ++at;
        continue;
      }
      const auto& bytes = early->second.front().bytes;
      if (bytes.size() != m.bytes)
        return size_mismatch(m, team_.rank(team_.self()), bytes.size(), team_.rank(from_));
      comm::copy_bytes(m.recv, bytes.data(), bytes.size());
      m.done = moved = true;
      early->second.pop_front();
      if (early->second.empty()) early_.erase(early);
      at = wanted_.erase(at);
    }
    // Nobody asks: it stays in the channel, which holds the sender back.
    if (wanted_.empty() && target_ == nullptr && early_target_ == nullptr) return moved;
    const Cell& cell = team_.memory(from_).cell(team_.self(), next_);
    if (cell.posted.load(std::memory_order_acquire) != next_ + 1) return moved;
    MGT_ASSIGN_OR_RETURN(const bool whole, take(cell));
    moved = true;
    if (!whole) return true;  // a large one: others get their turn
  }
}

// False: a direct message of which more is to be copied.
Result<bool> ShmReceiver::take(const Cell& cell) {
  if (target_ == nullptr && early_target_ == nullptr) {  // the first part of a message
    const auto at = std::find_if(wanted_.begin(), wanted_.end(),
                                 [&](const Message* m) { return m->key == cell.key; });
    if (at != wanted_.end() && !early_.contains(cell.key)) {
      if ((*at)->bytes != cell.total)
        return size_mismatch(**at, team_.rank(team_.self()), cell.total, team_.rank(from_));
      target_ = *at;
      wanted_.erase(at);
    } else {
      early_target_ = &early_[cell.key].emplace_back();
      early_target_->bytes.resize(cell.total);
    }
  }
  std::byte* to = target_ != nullptr ? target_->recv : early_target_->bytes.data();
  bool last = cell.offset + cell.bytes == cell.total;
  if (cell.kind == Cell::direct) {
    const std::byte* from = team_.address(from_, cell.source);
    if (from == nullptr) {
      return Status::error(
          Code::failed_precondition,
          text("a message of rank ", team_.rank(from_), " lies in memory that rank ",
               team_.rank(team_.self()), " has freed"),
          "allocations are shared", "free them on all ranks at the same point");
    }
    const uint64_t piece = std::min(cell.total - copied_, kPiece);
    comm::copy_bytes(to + copied_, from + copied_, piece);
    copied_ += piece;
    if (copied_ < cell.total) return false;
    copied_ = 0;
    last = true;
  } else if (cell.bytes > 0) {
    comm::copy_bytes(to + cell.offset, cell.payload, cell.bytes);
  }
  const_cast<Cell&>(cell).taken.store(++next_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  team_.ring(from_);
  if (last) {
    if (target_ != nullptr) target_->done = true;
    if (early_target_ != nullptr) early_target_->complete = true;
    target_ = nullptr;
    early_target_ = nullptr;
  }
  return true;
}

}  // namespace megatron::ucx
