#include "base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>

#include "allocation_count.hpp"
#include "support/other_threads.hpp"

namespace megatron {
namespace {

std::unique_ptr<ThreadPool> make_pool(const ThreadPoolOptions& options) {
  auto pool = ThreadPool::create(options);
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return std::move(pool).value();
}

int cpus_in_mask() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : -1;
}

// More workers than CPUs, a sleeping pool and a spinning one are the same to the caller.
class ThreadPoolOf : public testing::TestWithParam<uint32_t> {};

TEST_P(ThreadPoolOf, RunsEveryTaskOnceWithUniqueWorkers) {
  for (const int spin_us : {0, 5}) {
    const auto pool =
        make_pool({.workers = GetParam(), .spin = std::chrono::microseconds(spin_us)});
    ASSERT_EQ(pool->workers(), GetParam());
    std::vector<std::atomic<int>> busy(pool->workers());
    int64_t next_size = 1;
    for (int loop = 0; loop < 2000; ++loop) {
      next_size = next_size * 1103515245 % 2147483647;
      const int64_t tasks = next_size % 300;
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      std::atomic<int> overlaps{0}, strangers{0};
      pool->parallel_for(tasks, [&](int64_t task, uint32_t worker) {
        if (worker >= busy.size()) {
          ++strangers;
          return;
        }
        if (busy[worker].fetch_add(1) != 0) ++overlaps;
        ++runs[static_cast<size_t>(task)];
        busy[worker].fetch_sub(1);
      });
      ASSERT_EQ(overlaps, 0);
      ASSERT_EQ(strangers, 0);
      for (const auto& count : runs) ASSERT_EQ(count, 1);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Workers, ThreadPoolOf, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, WritesOfTasksAreVisibleAfterTheLoop) {
  const auto pool = make_pool({.workers = 4});
  std::vector<int64_t> squares(1000);  // plain memory: the sanitizer of threads watches this
  for (int loop = 0; loop < 200; ++loop) {
    pool->parallel_for(1000, [&](int64_t task, uint32_t) {
      squares[static_cast<size_t>(task)] = task * task + loop;
    });
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(squares[static_cast<size_t>(i)], i * i + loop);
  }
}

TEST(ThreadPool, NoTasks) {
  const auto pool = make_pool({.workers = 2});
  pool->parallel_for(0, [](int64_t, uint32_t) { FAIL(); });
  pool->parallel_for(-3, [](int64_t, uint32_t) { FAIL(); });
}

TEST(ThreadPool, CallsFromSeveralThreadsAreSerialised) {
  const auto pool = make_pool({.workers = 3});
  std::atomic<int> loops_inside{0}, overlaps{0};
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int loop = 0; loop < 200; ++loop) {
        std::atomic<bool> first{true};
        std::atomic<int> left{50};
        pool->parallel_for(50, [&](int64_t, uint32_t) {
          if (first.exchange(false) && loops_inside.fetch_add(1) != 0) ++overlaps;
          sum += caller;
          if (left.fetch_sub(1) == 1) loops_inside.fetch_sub(1);
        });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(sum, 200 * 50 * (0 + 1 + 2 + 3));
}

// Two tasks that each wait for the other end only when two workers run at one time; 50 ms before
// each loop put the workers to sleep.
TEST(ThreadPool, SleepingWorkersWake) {
  const auto pool = make_pool({.workers = 2});
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::atomic<int> arrived{0};
    pool->parallel_for(2, [&](int64_t, uint32_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, AnIdlePoolSleeps) {
  if (!test::kThreadsCanRest) GTEST_SKIP() << "ThreadSanitizer has a thread that never rests";
  const auto pool = make_pool({.workers = 4});
  pool->parallel_for(100, [](int64_t, uint32_t) {});
  EXPECT_TRUE(test::other_threads_fall_asleep());
}

TEST(ThreadPool, DoesNotAllocate) {
  if (allocation_count() == 0) GTEST_SKIP() << "the sanitizer owns malloc";
  const auto pool = make_pool({.workers = 3});
  std::vector<float> data(4096, 1.0f);
  const int64_t before = allocation_count();
  for (int loop = 0; loop < 100; ++loop)
    pool->parallel_for(64, [&, loop](int64_t task, uint32_t worker) {
      data[static_cast<size_t>(task * 8)] += static_cast<float>(worker) + static_cast<float>(loop);
    });
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST(ThreadPool, WorkersArePinnedAndNobodyElse) {
  const auto cpus = usable_cpus();
  const auto pool = make_pool({.workers = static_cast<uint32_t>(cpus.size())});
  EXPECT_TRUE(pool->pinned());
  std::vector<int> mask_sizes(cpus.size()), ran_on(cpus.size(), -1);
  std::atomic<size_t> arrived{0};
  pool->parallel_for(static_cast<int64_t>(cpus.size()), [&](int64_t, uint32_t worker) {
    mask_sizes[worker] = cpus_in_mask();
    ran_on[worker] = current_cpu();
    ++arrived;  // keeps every worker to one task
    while (arrived < cpus.size()) std::this_thread::yield();
  });
  for (size_t worker = 1; worker < cpus.size(); ++worker) {
    EXPECT_EQ(mask_sizes[worker], 1);
    EXPECT_EQ(ran_on[worker], cpus[worker].id);
  }
  // The caller keeps its mask, and so do the threads that it starts.
  EXPECT_EQ(mask_sizes[0], static_cast<int>(cpus.size()));
  int inherited = 0;
  std::thread([&] { inherited = cpus_in_mask(); }).join();
  EXPECT_EQ(inherited, static_cast<int>(cpus.size()));
}

TEST(ThreadPool, PinningCanBeOff) {
  const auto cpus = usable_cpus();
  // Created by a thread that some library has pinned: the workers get the whole set all the same.
  std::unique_ptr<ThreadPool> pool;
  std::thread([&] {
    restrict_thread(std::span(cpus).first(1));
    pool = make_pool({.workers = 2, .pin = false, .cpus = cpus});
  }).join();
  EXPECT_FALSE(pool->pinned());
  std::atomic<int> arrived{0}, narrow{0};
  pool->parallel_for(2, [&](int64_t, uint32_t) {
    if (cpus_in_mask() != static_cast<int>(cpus.size())) ++narrow;
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(narrow, 0);
}

TEST(ThreadPool, MoreWorkersThanCpusAreNotPinned) {
  const auto pool = make_pool({.workers = static_cast<uint32_t>(usable_cpus().size()) + 1});
  EXPECT_FALSE(pool->pinned());
}

TEST(ThreadPoolDeathTest, NestedCall) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const auto pool = make_pool({.workers = 2});
        pool->parallel_for(
            4, [&](int64_t, uint32_t) { pool->parallel_for(1, [](int64_t, uint32_t) {}); });
      },
      "CHECK failed.*parallel_for was called from inside a task");
}

}  // namespace
}  // namespace megatron
