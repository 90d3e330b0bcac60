#include "comm/traps.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "comm/timing.hpp"

namespace megatron::bench {
namespace {

using namespace std::chrono_literals;

class Table {
 public:
  explicit Table(uint32_t rank) : rank_(rank) {
    if (rank == 0)
      fmt::print("\n| trap | without it, us | with it, us | ratio |\n|---|---|---|---|\n");
  }
  void row(const std::string& name, double without, double with) const {
    if (rank_ == 0)
      fmt::print("| {} | {:.1f} | {:.1f} | {:.2f} |\n", name, without * 1e6, with * 1e6,
                 with / without);
  }

 private:
  uint32_t rank_;
};

std::function<void()> all_reduce(const test::GroupHandle& group, float* x, uint64_t elements) {
  return [&group, x, elements] {
    const Status s = group.run({test::operation(MGT_ALL_REDUCE, MGT_DTYPE_F32, x, x, elements)});
    MGT_CHECK(s.ok(), s.message());
  };
}

double typical(const std::function<void()>& run) {
  std::vector<double> times;
  const int count = repetitions(run);
  for (int i = 0; i < 9; ++i) times.push_back(seconds_each(run, count));
  return median(times);
}

// A vector's block begins 16 bytes into a page; shared memory begins at a page.
void copies_at_16_modulo_4096(const Table& table, const test::GroupHandle& group) {
  for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{512} << 10}) {
    std::vector<char> room(bytes + 3 * 4096);
    const auto page = (reinterpret_cast<uintptr_t>(room.data()) + 4095) / 4096 * 4096;
    const auto at = [&](uintptr_t offset) {
      return all_reduce(group, reinterpret_cast<float*>(page + offset), bytes / sizeof(float));
    };
    table.row(fmt::format("plain {} KiB at 16 modulo 4096 instead of 64", bytes >> 10),
              typical(at(64)), typical(at(16)));
    table.row(fmt::format("plain {} KiB at 4080 modulo 4096 instead of 64", bytes >> 10),
              typical(at(64)), typical(at(4080)));
  }
}

void first_touch(const Table& table, test::Rank& rank, const test::GroupHandle& group) {
  constexpr uint64_t kElements = (uint64_t{16} << 20) / sizeof(float);
  std::vector<double> first, later;
  for (int i = 0; i < 5; ++i) {
    auto* x = rank.allocate<float>(kElements);
    const auto run = all_reduce(group, x, kElements);
    const auto once = [&] {
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = std::chrono::steady_clock::now();
      run();
      return largest_of_all_ranks(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    };
    first.push_back(once());
    for (int k = 0; k < 5; ++k) once();
    later.push_back(once());
    rank.free(x);
  }
  table.row("first all_reduce in 16 MiB of fresh allocated memory, against a later one",
            median(later), median(first));
}

// Threads that wake from sleep may all be put on one processor.
void after_sleep(const Table& table, test::Rank& rank, const test::GroupHandle& group) {
  for (const uint64_t bytes : {uint64_t{1} << 10, uint64_t{1} << 20, uint64_t{16} << 20}) {
    auto* x = rank.allocate<float>(bytes / sizeof(float));
    const auto run = all_reduce(group, x, bytes / sizeof(float));
    std::vector<double> slept;
    for (int i = 0; i < 31; ++i) {
      MPI_Barrier(MPI_COMM_WORLD);
      std::this_thread::sleep_for(5ms);
      const auto start = std::chrono::steady_clock::now();
      run();
      slept.push_back(largest_of_all_ranks(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    }
    table.row(fmt::format("all_reduce of {} KiB after both ranks slept 5 ms", bytes >> 10),
              typical(run), median(slept));
    rank.free(x);
  }
}

// Spinning must not collapse when another process wants the processor.
void with_a_competitor(const Table& table, test::Rank& rank, const test::GroupHandle& group) {
  for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{4} << 20}) {
    auto* x = rank.allocate<float>(bytes / sizeof(float));
    const auto run = all_reduce(group, x, bytes / sizeof(float));
    std::vector<float> y(bytes / sizeof(float));
    const auto mpi = [&] {
      MPI_Allreduce(MPI_IN_PLACE, y.data(), static_cast<int>(y.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
    const double alone = typical(run), mpi_alone = typical(mpi);
    pid_t child = 0;
    if (rank.rank() == 0) {
      child = ::fork();
      if (child == 0) {
        for (volatile uint64_t i = 0;;) i = i + 1;
      }
    }
    const double contended = typical(run), mpi_contended = typical(mpi);
    if (child > 0) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    table.row(fmt::format("all_reduce of {} KiB beside one busy process", bytes >> 10), alone,
              contended);
    table.row(fmt::format("the same, Open MPI's", bytes >> 10), mpi_alone, mpi_contended);
    rank.free(x);
  }
}

}  // namespace

void show_traps(test::Rank& rank, const test::GroupHandle& group) {
  const Table table(rank.rank());
  copies_at_16_modulo_4096(table, group);
  first_touch(table, rank, group);
  after_sleep(table, rank, group);
  with_a_competitor(table, rank, group);
}

}  // namespace megatron::bench
