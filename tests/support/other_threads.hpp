// Whether the other threads of this process are at rest: they take no processor time, which one
// that spins does, and do not wake up, which one that naps does.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace megatron::test {

// ThreadSanitizer has a thread of its own that never rests.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsCanRest = false;
#else
inline constexpr bool kThreadsCanRest = true;
#endif

// How often the threads of this process, the calling one apart, went to sleep or were sent to.
inline int64_t switches_of_other_threads() {
  int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      int64_t count = 0;
      if (word.ends_with("ctxt_switches:") && status >> count) sum += count;
    }
  }
  return sum;
}

inline std::chrono::nanoseconds time_of_other_threads() {
  const auto read = [](clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  return read(CLOCK_PROCESS_CPUTIME_ID) - read(CLOCK_THREAD_CPUTIME_ID);
}

// True as soon as half a second passes in which no other thread moves, false when none of 20 does.
inline bool other_threads_fall_asleep() {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < end) {
    const int64_t switches = switches_of_other_threads();
    const auto time = time_of_other_threads();
    std::this_thread::sleep_for(500ms);
    if (switches_of_other_threads() == switches && time_of_other_threads() - time < 50ms)
      return true;
  }
  return false;
}

}  // namespace megatron::test
