// The staged way of a collective within a host: private memory goes through the group's shared
// stages in rounds, two of them under way at a time.
#include <algorithm>

#include "shm_collective.hpp"

namespace megatron::ucx {

bool ShmCollective::step_staged() {
  bool moved = false;
  // The half of the stage is free when all have consumed what lay there two rounds ago.
  const uint64_t tick = base_consumed_ + staged_;
  if (staged_ < rounds_ && (tick < 2 || team_.reached(Team::consumed, tick - 1))) {
    stage_round(staged_++);
    team_.publish(Team::staged, base_staged_ + staged_);
    team_.ring_all();
    moved = true;
  }
  const bool all_reduce = o_.kind == MGT_ALL_REDUCE;
  if (all_reduce && reduced_ < staged_ &&
      team_.reached(Team::staged, base_staged_ + reduced_ + 1)) {
    reduce_round(reduced_++);
    team_.publish(Team::reduced, base_reduced_ + reduced_);
    team_.ring_all();
    moved = true;
  }
  if (consumed_ < (all_reduce ? reduced_ : staged_) &&
      (all_reduce ? team_.reached(Team::reduced, base_reduced_ + consumed_ + 1)
                  : team_.reached(Team::staged, base_staged_ + consumed_ + 1))) {
    consume_round(consumed_++);
    team_.publish(Team::consumed, base_consumed_ + consumed_);
    team_.ring_all();
    moved = true;
  }
  if (consumed_ == rounds_) {
    finish();
    moved = true;
  }
  return moved;
}

void ShmCollective::stage_round(uint64_t round) {
  std::byte* stage = team_.own().stage(base_staged_ + round);
  const uint64_t size = o_.element_size;
  const uint64_t begin = round * per_round_;
  const auto rest = [&](uint64_t count) {
    return std::min(count - std::min(begin, count), per_round_);
  };
  switch (o_.kind) {
    case MGT_ALL_REDUCE: {  // without the own share, which nobody else reads
      const uint64_t count = rest(o_.count);
      const Range mine = share(count, self_);
      const std::byte* from = o_.send + begin * size;
      copy(stage, from, mine.begin * size);
      copy(stage + mine.end * size, from + mine.end * size, (count - mine.end) * size);
      break;
    }
    case MGT_REDUCE_SCATTER:
    case MGT_ALL_TO_ALL:
    case MGT_ALL_TO_ALL_V:
      for (uint32_t i = 0; i < n_; ++i) {
        if (i == self_) continue;
        const bool v = o_.kind == MGT_ALL_TO_ALL_V;
        const uint64_t first = v ? send_displacement_[i] : i * o_.count;
        const uint64_t count = rest(v ? o_.send_counts[i] : o_.count);
        copy(stage + i * per_round_ * size, o_.send + (first + begin) * size, count * size);
      }
      break;
    case MGT_ALL_GATHER:
      copy(stage, o_.send + begin * size, rest(o_.count) * size);
      break;
    default:  // MGT_BROADCAST
      if (o_.peer == self_) copy(stage, o_.send + begin * size, rest(o_.count) * size);
      break;
  }
}

// The own share of a round: into the own result and, for the others, into the own stage.
void ShmCollective::reduce_round(uint64_t round) {
  const uint64_t size = o_.element_size;
  const uint64_t begin = round * per_round_;
  const uint64_t count = std::min(o_.count - begin, per_round_);
  const Range mine = share(count, self_);
  p_.sources.clear();
  for (uint32_t i = 0; i < n_; ++i) {
    p_.sources.push_back(i == self_
                             ? o_.send + (begin + mine.begin) * size
                             : team_.memory(i).stage(base_staged_ + round) + mine.begin * size);
  }
  std::byte* const targets[] = {team_.own().stage(base_staged_ + round) + mine.begin * size,
                                o_.recv + (begin + mine.begin) * size};
  comm::reduce(reduction(), p_.sources, targets, mine.end - mine.begin);
}

void ShmCollective::consume_round(uint64_t round) {
  const uint64_t size = o_.element_size;
  const uint64_t begin = round * per_round_;
  const uint64_t tick = base_staged_ + round;
  const auto rest = [&](uint64_t count) {
    return std::min(count - std::min(begin, count), per_round_);
  };
  const uint64_t count = rest(o_.count);
  p_.sources.clear();
  for (uint32_t k = 0; k < n_; ++k) {
    const uint32_t i = o_.kind == MGT_REDUCE_SCATTER ? k : (self_ + k) % n_;
    const std::byte* stage = team_.memory(i).stage(tick);
    switch (o_.kind) {
      case MGT_ALL_REDUCE: {
        const Range theirs = share(count, i);
        if (i != self_) {
          copy(o_.recv + (begin + theirs.begin) * size, stage + theirs.begin * size,
               (theirs.end - theirs.begin) * size);
        }
        break;
      }
      case MGT_REDUCE_SCATTER:
        p_.sources.push_back(i == self_ ? o_.send + block(self_) + begin * size
                                        : stage + self_ * per_round_ * size);
        break;
      case MGT_ALL_TO_ALL:
        copy(o_.recv + block(i) + begin * size,
             i == self_ ? o_.send + block(i) + begin * size : stage + self_ * per_round_ * size,
             count * size);
        break;
      case MGT_ALL_TO_ALL_V:
        copy(o_.recv + (recv_displacement_[i] + begin) * size,
             i == self_ ? o_.send + (send_displacement_[i] + begin) * size
                        : stage + self_ * per_round_ * size,
             rest(o_.recv_counts[i]) * size);
        break;
      case MGT_ALL_GATHER:
        copy(o_.recv + block(i) + begin * size, i == self_ ? o_.send + begin * size : stage,
             count * size);
        break;
      default:  // MGT_BROADCAST
        if (i == o_.peer && i != self_) copy(o_.recv + begin * size, stage, count * size);
        break;
    }
  }
  if (o_.kind == MGT_REDUCE_SCATTER) {
    std::byte* target = o_.recv + begin * size;
    comm::reduce(reduction(), p_.sources, {&target, 1}, count);
  }
}

}  // namespace megatron::ucx
