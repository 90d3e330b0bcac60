#include "spread_collective.hpp"

#include <algorithm>

namespace megatron::ucx {

SpreadCollective::SpreadCollective(SpreadContext& context, const comm::Operation& operation,
                                   uint64_t sequence)
    : c_(context),
      o_(operation),
      sequence_(sequence),
      n_(static_cast<uint32_t>(context.hosts.host_of.size())),
      self_(context.hosts.own()[context.hosts.own_index]),
      size_(operation.element_size) {}

bool SpreadCollective::post() {
  if (posted_) return false;
  c_.team.publish(Team::started, sequence_ + 1);
  return posted_ = true;
}

Result<bool> SpreadCollective::step() {
  bool moved = false;
  if (!planned_) {
    plan();
    planned_ = moved = true;
  }
  while (next_ < steps_.size()) {
    Step& step = steps_[next_];
    if (step.compute) {
      step.compute();
    } else if (step.local) {
      if (!local_run_) {
        local_run_ = std::make_unique<ShmCollective>(c_.team, *step.local, c_.local_sequence++);
        moved |= local_run_->post();
      }
      MGT_ASSIGN_OR_RETURN(const bool stepped, local_run_->step());
      moved |= stepped;
      if (!local_run_->finished()) return moved;
      local_run_.reset();
    } else {
      MGT_ASSIGN_OR_RETURN(const bool complete, run_exchange(step));
      if (!complete) return moved;
    }
    ++next_;
    moved = true;
  }
  return moved;
}

Result<bool> SpreadCollective::run_exchange(Step& step) {
  if (messages_.empty()) {
    // All recvs first: what comes then needs no copy.
    for (const bool receiving : {true, false}) {
      for (const Part& part : step.parts) {
        if (part.receives != receiving) continue;
        auto& m = messages_.emplace_back();
        m.key = {MessageKey::kCollective, sequence_ * 16 + exchanges_};
        m.send = part.send;
        m.recv = part.recv;
        m.bytes = part.bytes;
        m.operation = &o_;
        peers_.push_back(part.peer);
        receiving ? c_.messenger.recv(part.peer, &m) : c_.messenger.send(part.peer, &m);
      }
    }
  }
  bool complete = true;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (!messages_[i].error.ok()) {
      lost_rank_ = c_.messenger.rank(peers_[i]);
      return messages_[i].error;
    }
    complete = complete && messages_[i].done;
  }
  if (complete) {
    messages_.clear();
    peers_.clear();
    ++exchanges_;
  }
  return complete;
}

bool SpreadCollective::needs(uint32_t rank) const {
  if (local_run_ && local_run_->needs(rank)) return true;
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (!messages_[i].done && c_.messenger.rank(peers_[i]) == rank) return true;
  }
  return false;
}

SpreadCollective::Range SpreadCollective::share(uint64_t count, uint64_t parts, uint64_t i,
                                                uint64_t size) {
  const uint64_t line = std::max<uint64_t>(64 / size, 1);
  const uint64_t each = ((count + parts - 1) / parts + line - 1) / line * line;
  return {std::min(i * each, count), std::min((i + 1) * each, count)};
}

void SpreadCollective::add_local(mgt_collective_kind kind, mgt_dtype dtype, const std::byte* send,
                                 std::byte* recv, uint64_t count, uint32_t member) {
  auto o = std::make_unique<comm::Operation>(o_);
  o->kind = kind;
  o->dtype = dtype;
  o->element_size = dtype == o_.dtype ? size_ : sizeof(float);  // a wider type is always f32
  o->send = send;
  o->recv = recv;
  o->count = count;
  o->peer = member;
  if (kind != MGT_ALL_REDUCE) o->reduce = 0;
  Step step;
  step.local = std::move(o);
  steps_.push_back(std::move(step));
}

void SpreadCollective::add_exchange(std::vector<Part> parts) {
  Step step;
  step.parts = std::move(parts);
  steps_.push_back(std::move(step));
}

void SpreadCollective::add_compute(std::function<void()> body) {
  Step step;
  step.compute = std::move(body);
  steps_.push_back(std::move(step));
}

void SpreadCollective::add_convert(mgt_dtype from, mgt_dtype to, const std::byte* source,
                                   std::byte* target, uint64_t count) {
  add_compute([=] {
    comm::reduce({from, to, MGT_REDUCE_SUM, false}, {&source, 1}, {&target, 1}, count);
  });
}

}  // namespace megatron::ucx
