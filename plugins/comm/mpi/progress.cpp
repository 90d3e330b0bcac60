#include "progress.hpp"

#include <sched.h>

#include <algorithm>

#include "megatron/thread.hpp"

namespace megatron::mpi {
namespace {

using namespace std::chrono_literals;
constexpr auto kNap = 200us;
constexpr auto kLookInterval = 50ms;

}  // namespace

Progress::Progress(std::function<Status(Unit&)> late)
    : late_(std::move(late)), thread_(start_thread("communication", [this] { run(); })) {}

Progress::~Progress() {
  locked([&] { stop_ = true; });
  changed_.notify_all();
  thread_.join();
}

void Progress::add(const std::shared_ptr<Unit>& unit) {
  units_.push_back(unit);
  changed_.notify_one();
}

void Progress::end(Unit& unit, Status status) {
  if (!status.ok()) failed_ = true;
  unit.status = std::move(status);
  unit.done = true;
}

void Progress::test_all() {
  for (const auto& unit : units_) {
    bool complete = true;
    for (auto& item : unit->items) {
      if (item.complete) continue;
      auto tested = item.run->test();
      if (!tested.ok()) {
        end(*unit, tested.status());
        break;
      }
      item.complete = *tested;
      complete = complete && item.complete;
    }
    if (!unit->done && complete) end(*unit, Status());
  }
  const auto now = std::chrono::steady_clock::now();
  if (!abort_reason_.empty() || now - looked_ > kLookInterval) {
    looked_ = now;
    for (const auto& unit : units_) {
      if (unit->done) continue;
      if (!abort_reason_.empty()) {
        end(*unit,
            Status::error(Code::aborted, "communication over MPI was aborted", abort_reason_));
      } else if (Status status = late_(*unit); !status.ok()) {
        end(*unit, std::move(status));
      }
    }
  }
  // MPI still has the buffers of a unit that failed: its requests are kept, not freed.
  std::erase_if(units_, [](const auto& unit) { return unit->done; });
}

void Progress::wait(const std::shared_ptr<Unit>& unit) {
  ++waiters_;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (!unit->done) test_all();
      if (unit->done) break;
    }
    ::sched_yield();  // MPI has nothing to sleep on
  }
  if (--waiters_ == 0) changed_.notify_one();
  throw_if_error(unit->status);
}

void Progress::abort(std::string reason) {
  locked([&] { abort_reason_ = std::move(reason); });
  changed_.notify_all();
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (units_.empty() || waiters_ > 0) {
      changed_.wait(lock, [&] { return stop_ || (!units_.empty() && waiters_ == 0); });
    } else {
      changed_.wait_for(lock, kNap);
    }
    if (!stop_ && waiters_ == 0) test_all();
  }
}

}  // namespace megatron::mpi
