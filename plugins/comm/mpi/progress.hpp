// Asks MPI again and again while operations are under way: MPI moves data only while it is called.
// The waiting thread does it, otherwise a thread that sleeps in between, and for good when nothing
// is under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "mpi_operation.hpp"

namespace megatron::mpi {

// Operations that were started together.
struct Unit {
  struct Item {
    comm::Operation operation;
    std::unique_ptr<MpiOperation> run;
    uint64_t sequence = 0;  // of a collective, in its group
    bool complete = false;
    bool announced = false;  // in the store: for the report of others
  };
  std::deque<Item> items;
  void* group = nullptr;
  bool done = false;
  Status status;
};

class Progress {
 public:
  // `late`: called now and then for a unit that takes long; its status, if not OK, ends the unit.
  explicit Progress(std::function<Status(Unit&)> late);
  ~Progress();

  // Every call of MPI happens inside.
  template <class Body>
  auto locked(Body&& body) {
    const std::lock_guard lock(mutex_);
    return body();
  }
  // With the lock held.
  void add(const std::shared_ptr<Unit>& unit);
  void wait(const std::shared_ptr<Unit>& unit);
  void abort(std::string reason);
  bool failed() const { return failed_; }

 private:
  void test_all();  // with the lock held
  void end(Unit& unit, Status status);
  void run();

  std::function<Status(Unit&)> late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Unit>> units_;
  std::chrono::steady_clock::time_point looked_;  // for late units
  std::string abort_reason_;
  std::atomic<int> waiters_{0};
  std::atomic<bool> failed_{false};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace megatron::mpi
