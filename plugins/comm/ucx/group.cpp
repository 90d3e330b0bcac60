#include "group.hpp"

#include <algorithm>

namespace megatron::ucx {
namespace {

// How long members on other hosts may take to say how far they are, once a deadline has passed.
constexpr auto kAnswerTime = std::chrono::milliseconds(500);
// What a rank sent before it left in order may still be on its way.
constexpr auto kLastWords = std::chrono::milliseconds(1000);

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

Group::Group(Engine& engine, const Segments& segments, Network* network, std::vector<Group*>& open,
             Settings settings, std::vector<Team::Member> local)
    : engine_(engine),
      settings_(std::move(settings)),
      team_(engine, segments, std::move(local), settings_.hosts.own_index),
      network_(spread() ? network : nullptr),
      messenger_(team_, settings_.hosts, network_, settings_.serial, settings_.ranks),
      context_{team_, settings_.hosts, messenger_},
      open_(open) {
  engine_.add(this);
  engine_.locked([&] { open_.push_back(this); });
}

Group::~Group() {
  engine_.remove(this);
  engine_.locked([&] {
    std::erase(open_, this);
    messenger_.forget();
  });
}

std::unique_ptr<Group::Item> Group::take_item() {
  if (spare_.empty()) return std::make_unique<Item>();
  auto item = std::move(spare_.back());
  spare_.pop_back();
  return item;
}

void Group::retire(std::unique_ptr<Item> item) {
  item->unit.reset();
  item->spread.reset();
  spare_.push_back(std::move(item));
}

std::shared_ptr<Unit> Group::take_unit() {
  constexpr size_t kKept = 4;
  for (const auto& unit : units_) {
    if (unit.use_count() > 1) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // what its last owner did is done
    unit->done.store(false, std::memory_order_relaxed);
    unit->status = Status();
    return unit;
  }
  auto unit = std::make_shared<Unit>();
  if (units_.size() < kKept) units_.push_back(unit);
  return unit;
}

std::unique_ptr<CommRequest> Group::start(std::span<const mgt_collective> operations) {
  const auto now = Clock::now();
  return engine_.locked([&] {
    if (!failure_.ok()) {
      throw StatusError(Status::error(
          Code::failed_precondition,
          text("group '", settings_.name, "' is unusable since a former operation failed"),
          text("that failure was: ", failure_.message()), "end the run, or start it again"));
    }
    checked_.clear();
    for (const auto& o : operations) {
      checked_.push_back(take_item());
      throw_if_error(comm::fill_operation(checked_.back()->operation, o, settings_.name,
                                          static_cast<uint32_t>(settings_.ranks.size()),
                                          settings_.self, settings_.timeout, now));
    }
    auto unit = take_unit();
    unit->open = checked_.size();
    if (checked_.empty()) unit->done = true;
    for (auto& item : checked_) {
      item->unit = unit;
      enqueue(std::move(item));
    }
    checked_.clear();
    // Announce now; the rest is for whoever drives.
    for (; posted_ < collectives_.size(); ++posted_) {
      if (!collectives_[posted_]->run->post()) break;
    }
    if (pending()) engine_.started();
    return std::make_unique<Request>(engine_, std::move(unit));
  });
}

void Group::enqueue(std::unique_ptr<Item> item) {
  const auto& o = item->operation;
  if (!o.point_to_point()) {
    item->sequence = sequence_++;
    if (spread()) {
      item->spread = std::make_unique<SpreadCollective>(context_, o, item->sequence);
      item->run = item->spread.get();
    } else {
      item->run = &item->within.emplace(team_, o, item->sequence);
    }
    collectives_.push_back(std::move(item));
    return;
  }
  auto& m = item->message;
  m = Message{{MessageKey::kUser, o.tag}, o.send, o.recv, o.bytes(), &o, false, Status()};
  o.kind == MGT_SEND ? messenger_.send(o.peer, &m) : messenger_.recv(o.peer, &m);
  transfers_.push_back(std::move(item));
}

bool Group::progress() {
  auto links = messenger_.progress();
  if (!links.ok()) {
    fail(links.status(), true);
    return true;
  }
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
  return *links || *collectives || *transfers;
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
  auto stepped = front.run->step();
  if (!stepped.ok()) {
    if (!spread()) return stepped.status();
    return lost(stepped.status(), front.operation, front.spread->lost_rank());
  }
  if (front.run->finished()) {
    complete(*front.unit);
    retire(std::move(collectives_.front()));
    collectives_.pop_front();
    --posted_;
  }
  return moved || *stepped;
}

Result<bool> Group::step_transfers() {
  bool moved = false;
  for (size_t i = 0; i < transfers_.size();) {
    auto& t = *transfers_[i];
    if (!t.message.error.ok())
      return lost(t.message.error, t.operation, settings_.ranks[t.operation.peer]);
    if (!t.message.done) {
      ++i;
      continue;
    }
    complete(*t.unit);
    retire(std::move(transfers_[i]));
    transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(i));
    moved = true;
  }
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
    for (uint32_t p = 0; network_ != nullptr && p < settings_.ranks.size(); ++p) {
      if (messenger_.is_local(p)) continue;
      network_->control(settings_.ranks[p],
                        {Control::failure, settings_.serial, 0,
                         static_cast<uint32_t>(status.code()), 0, std::string(status.message())});
    }
  }
  const auto end = [&](Unit& unit) {
    if (unit.done.load(std::memory_order_relaxed)) return;
    unit.status = status;
    unit.done.store(true, std::memory_order_release);
  };
  messenger_.forget();  // before the messages' owners go
  for (auto& c : collectives_) end(*c->unit);
  for (auto& t : transfers_) end(*t->unit);
  collectives_.clear();
  transfers_.clear();
  posted_ = 0;
}

void Group::inspect(Clock::time_point now) {
  for (uint32_t i = 0; i < team_.size(); ++i) {
    const auto& failure = team_.memory(i).failure();
    const uint32_t code = failure.code.load(std::memory_order_acquire);
    if (code == 0 || i == team_.self()) continue;
    return fail(Status(static_cast<Code>(code), std::string(failure.text, failure.size)), false);
  }
  if (!gone_.empty()) inspect_gone(now);
  for (const auto& c : collectives_) {
    if (c->operation.deadline <= now) return expire(*c, now);
  }
  for (const auto& t : transfers_) {
    if (t->operation.deadline > now) continue;
    return report(t->operation, {settings_.ranks[settings_.self]},
                  {settings_.ranks[t->operation.peer]});
  }
}

void Group::inspect_gone(Clock::time_point now) {
  const bool moved = progress();  // what the rank did before its end still counts
  if (!failure_.ok() || moved) return;
  for (const auto& g : gone_) {
    if (g.orderly && now - g.since < kLastWords) continue;
    for (const auto& c : collectives_) {
      if (!g.orderly || c->run->needs(g.rank)) return fail(gone_report(c->operation), true);
    }
    for (const auto& t : transfers_) {
      if (settings_.ranks[t->operation.peer] == g.rank)
        return fail(gone_report(t->operation), true);
    }
  }
}

// Ranks of this host show how far they are; those of other hosts are asked.
void Group::expire(const Item& collective, Clock::time_point now) {
  std::vector<uint32_t> arrived, missing;
  if (!spread()) {
    collective.within->arrivals(arrived, missing);
    return report(collective.operation, std::move(arrived), std::move(missing));
  }
  std::vector<uint32_t> silent;
  for (uint32_t p = 0; p < settings_.ranks.size(); ++p) {
    const uint32_t rank = settings_.ranks[p];
    uint64_t started = 0;
    if (messenger_.is_local(p)) {
      started = team_.memory(settings_.hosts.index_of[p])
                    .progress()
                    .started.value.load(std::memory_order_acquire);
    } else if (const auto answer = answers_.find(rank); answer != answers_.end()) {
      started = answer->second;
    } else {
      silent.push_back(rank);
    }
    (started > collective.sequence ? arrived : missing).push_back(rank);
  }
  if (asked_ == Clock::time_point{}) {
    asked_ = now;
    for (const uint32_t rank : silent) {
      network_->control(rank, {Control::query, settings_.serial, 0, 0, collective.sequence, {}});
    }
  }
  if (silent.empty() || now - asked_ > kAnswerTime)
    report(collective.operation, std::move(arrived), std::move(missing));
}

void Group::report(const comm::Operation& operation, std::vector<uint32_t> arrived,
                   std::vector<uint32_t> missing) {
  fail(comm::deadline_report(operation, settings_.name, settings_.ranks[settings_.self], arrived,
                             missing),
       true);
}

void Group::receive(const Control& control) {
  switch (control.kind) {
    case Control::query:
      network_->control(control.source, {Control::answer, settings_.serial, 0, 0, sequence_, {}});
      break;
    case Control::answer:
      answers_[control.source] = control.sequence;
      break;
    case Control::failure:
      fail(Status(static_cast<Code>(control.code), control.text), true);
      break;
    default:
      break;
  }
}

Work::Clock::time_point Group::next_deadline() const {
  auto next = Clock::time_point::max();
  for (const auto& c : collectives_) next = std::min(next, c->operation.deadline);
  for (const auto& t : transfers_) next = std::min(next, t->operation.deadline);
  // After asking others, look often for their answers.
  const bool asked = asked_ != Clock::time_point{};
  return asked ? Clock::now() + std::chrono::milliseconds(10) : next;
}

void Group::peer_gone(uint32_t rank, bool orderly) {
  if (rank == settings_.ranks[settings_.self]) return;
  if (std::find(settings_.ranks.begin(), settings_.ranks.end(), rank) == settings_.ranks.end())
    return;
  gone_.push_back({rank, orderly, Clock::now()});
}

Status Group::lost(const Status& error, const comm::Operation& operation, uint32_t rank) {
  if (error.code() != Code::unavailable) return error;
  if (std::none_of(gone_.begin(), gone_.end(), [&](const Gone& g) { return g.rank == rank; }))
    gone_.push_back({rank, false, Clock::now()});
  return gone_report(operation);
}

Status Group::gone_report(const comm::Operation& operation) const {
  std::vector<uint32_t> ranks;
  bool orderly = true;
  for (const auto& g : gone_) {
    ranks.push_back(g.rank);
    orderly = orderly && g.orderly;
  }
  const bool one = ranks.size() == 1;
  return Status::error(
      Code::unavailable,
      text("rank ", settings_.ranks[settings_.self], ": ", comm::title(operation), " of group '",
           settings_.name, "' cannot complete: ", comm::rank_list(ranks), one ? " is" : " are",
           " gone"),
      orderly ? text(one ? "it" : "they", " left the communication in order, before this operation")
              : text("the process ended or was killed, or its host cannot be reached"),
      text("look at the output of ", comm::rank_list(ranks)));
}

void Group::abort(const std::string& reason) {
  if (!failure_.ok()) return;
  fail(Status::error(Code::aborted,
                     text("rank ", settings_.ranks[settings_.self], ": communication of group '",
                          settings_.name, "' was aborted"),
                     reason),
       false);
}

}  // namespace megatron::ucx
