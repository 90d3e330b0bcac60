#include "group.hpp"

#include <algorithm>

namespace megatron::ucx {
namespace {

class Request final : public CommRequest {
 public:
  Request(Engine& engine, std::shared_ptr<Unit> unit) : engine_(engine), unit_(std::move(unit)) {}
  void wait() override {
    engine_.wait(unit_->done);
    throw_if_error(unit_->status);
  }

 private:
  Engine& engine_;
  std::shared_ptr<Unit> unit_;
};

}  // namespace

Group::Group(Engine& engine, const Segments& segments, Settings settings,
             std::vector<Team::Member> local)
    : engine_(engine),
      settings_(std::move(settings)),
      team_(engine, segments, std::move(local), settings_.self) {
  engine_.add(this);
}

Group::~Group() { engine_.remove(this); }

std::unique_ptr<CommRequest> Group::start(std::span<const mgt_collective> operations) {
  const auto now = Clock::now();
  std::vector<comm::Operation> checked;
  checked.reserve(operations.size());
  for (const auto& o : operations) {
    checked.push_back(value_or_throw(comm::make_operation(
        o, settings_.name, static_cast<uint32_t>(settings_.ranks.size()), settings_.self,
        settings_.timeout, now)));
  }
  auto unit = std::make_shared<Unit>();
  unit->open = checked.size();
  if (checked.empty()) unit->done = true;
  const bool rest = engine_.locked([&] {
    if (!failure_.ok()) {
      throw StatusError(Status::error(
          Code::failed_precondition,
          text("group '", settings_.name, "' is unusable since a former operation failed"),
          text("that failure was: ", failure_.message()), "end the run, or start it again"));
    }
    for (auto& o : checked) enqueue(std::move(o), unit);
    // Announce now, and send what is small; the rest is for whoever drives.
    for (; posted_ < collectives_.size(); ++posted_) {
      if (!collectives_[posted_]->run->post()) break;
    }
    for (auto& [peer, sender] : senders_) sender.progress();
    return pending();
  });
  if (rest) engine_.started();
  return std::make_unique<Request>(engine_, std::move(unit));
}

void Group::enqueue(comm::Operation operation, const std::shared_ptr<Unit>& unit) {
  if (!operation.point_to_point()) {
    auto c = std::make_unique<Collective>(Collective{std::move(operation), unit, nullptr});
    c->run = std::make_unique<ShmCollective>(team_, c->operation, sequence_++);
    collectives_.push_back(std::move(c));
    return;
  }
  auto t = std::make_unique<Transfer>(Transfer{std::move(operation), unit, {}});
  t->message.operation = &t->operation;
  const uint32_t peer = t->operation.peer;
  if (t->operation.kind == MGT_SEND) {
    senders_.try_emplace(peer, team_, peer).first->second.push(&t->message);
  } else {
    receivers_.try_emplace(peer, team_, peer).first->second.push(&t->message);
  }
  transfers_.push_back(std::move(t));
}

bool Group::progress() {
  auto collectives = step_collectives();
  if (!collectives.ok()) {
    fail(collectives.status(), true);
    return true;
  }
  auto transfers = step_transfers();
  if (!transfers.ok()) {
    fail(transfers.status(), true);
    return true;
  }
  return *collectives || *transfers;
}

Result<bool> Group::step_collectives() {
  if (collectives_.empty()) return false;
  bool moved = false;
  for (; posted_ < collectives_.size(); ++posted_) {
    if (!collectives_[posted_]->run->post()) break;
    moved = true;
  }
  if (posted_ == 0) return moved;
  auto& front = *collectives_.front();
  MGT_ASSIGN_OR_RETURN(const bool stepped, front.run->step());
  if (front.run->finished()) {
    complete(*front.unit);
    collectives_.pop_front();
    --posted_;
  }
  return moved || stepped;
}

Result<bool> Group::step_transfers() {
  if (transfers_.empty()) return false;
  bool moved = false;
  for (auto& [peer, sender] : senders_) moved |= sender.progress();
  for (auto& [peer, receiver] : receivers_) {
    MGT_ASSIGN_OR_RETURN(const bool received, receiver.progress());
    moved |= received;
  }
  std::erase_if(transfers_, [&](const std::unique_ptr<Transfer>& t) {
    if (!t->message.done) return false;
    complete(*t->unit);
    return true;
  });
  return moved;
}

void Group::complete(Unit& unit) {
  if (--unit.open == 0) unit.done.store(true, std::memory_order_release);
}

void Group::fail(Status status, bool tell_others) {
  if (!failure_.ok()) return;
  failure_ = status;
  if (tell_others) {
    auto& failure = team_.own().failure();
    failure.size = static_cast<uint32_t>(std::min(status.message().size(), sizeof failure.text));
    std::memcpy(failure.text, status.message().data(), failure.size);
    failure.code.store(static_cast<uint32_t>(status.code()), std::memory_order_release);
    team_.ring_all();
  }
  const auto end = [&](Unit& unit) {
    if (unit.done.load(std::memory_order_relaxed)) return;
    unit.status = status;
    unit.done.store(true, std::memory_order_release);
  };
  for (auto& c : collectives_) end(*c->unit);
  for (auto& t : transfers_) end(*t->unit);
  collectives_.clear();
  transfers_.clear();
  posted_ = 0;
  senders_.clear();
  receivers_.clear();
}

void Group::inspect(Clock::time_point now) {
  for (uint32_t i = 0; i < team_.size(); ++i) {
    const auto& failure = team_.memory(i).failure();
    const uint32_t code = failure.code.load(std::memory_order_acquire);
    if (code == 0 || i == team_.self()) continue;
    fail(Status(static_cast<Code>(code), std::string(failure.text, failure.size)), false);
    return;
  }
  if (!gone_.empty()) {
    const bool moved = progress();  // what the rank did before its end still counts
    if (!failure_.ok() || !pending() || moved) return;
    for (const auto& c : collectives_) {
      if (!std::any_of(gone_.begin(), gone_.end(), [&](auto& g) { return c->run->needs(g.first); }))
        continue;
      return fail(gone_report(c->operation), true);
    }
    for (const auto& t : transfers_) {
      const uint32_t peer = settings_.ranks[t->operation.peer];
      if (std::none_of(gone_.begin(), gone_.end(), [&](auto& g) { return g.first == peer; }))
        continue;
      return fail(gone_report(t->operation), true);
    }
  }
  for (const auto& c : collectives_) {
    if (c->operation.deadline > now) continue;
    std::vector<uint32_t> arrived, missing;
    c->run->arrivals(arrived, missing);
    return expire(c->operation, std::move(arrived), std::move(missing));
  }
  for (const auto& t : transfers_) {
    if (t->operation.deadline > now) continue;
    return expire(t->operation, {settings_.ranks[settings_.self]},
                  {settings_.ranks[t->operation.peer]});
  }
}

void Group::expire(const comm::Operation& operation, std::vector<uint32_t> arrived,
                   std::vector<uint32_t> missing) {
  fail(comm::deadline_report(operation, settings_.name, settings_.ranks[settings_.self], arrived,
                             missing),
       true);
}

Work::Clock::time_point Group::next_deadline() const {
  auto next = Clock::time_point::max();
  for (const auto& c : collectives_) next = std::min(next, c->operation.deadline);
  for (const auto& t : transfers_) next = std::min(next, t->operation.deadline);
  return next;
}

void Group::peer_gone(uint32_t rank, bool orderly) {
  if (rank == settings_.ranks[settings_.self]) return;
  if (std::find(settings_.ranks.begin(), settings_.ranks.end(), rank) == settings_.ranks.end())
    return;
  gone_.emplace_back(rank, orderly);
}

Status Group::gone_report(const comm::Operation& operation) const {
  std::vector<uint32_t> ranks;
  bool orderly = true;
  for (const auto& [rank, left] : gone_) {
    ranks.push_back(rank);
    orderly = orderly && left;
  }
  const bool one = ranks.size() == 1;
  return Status::error(
      Code::unavailable,
      text("rank ", settings_.ranks[settings_.self], ": ", comm::title(operation), " of group '",
           settings_.name, "' cannot complete: ", comm::rank_list(ranks), one ? " is" : " are",
           " gone"),
      orderly ? text(one ? "it" : "they", " left the communication in order, before this operation")
              : text("the process ended, or was killed"),
      text("look at the output of ", comm::rank_list(ranks)));
}

void Group::abort(const std::string& reason) {
  if (!failure_.ok()) return;
  fail(Status::error(Code::aborted,
                     text("rank ", settings_.ranks[settings_.self],
                          ": communication of group '", settings_.name, "' was aborted"),
                     reason),
       false);
}

}  // namespace megatron::ucx
