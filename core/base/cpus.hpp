// Which CPUs this process may use, and where a thread runs. Linux.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megatron {

// A logical CPU. Two CPUs with one `core` share its execution units (SMT).
struct Cpu {
  int id = 0;
  int core = 0;    // lowest CPU id of the physical core
  int thread = 0;  // 0 for that CPU, 1, 2, … for its siblings
  friend bool operator==(const Cpu&, const Cpu&) = default;
};

// The CPUs of the calling thread's affinity mask, one of each core first, then the SMT siblings, so
// that a prefix of the list is a good choice of workers. Call it before libraries are loaded that
// pin the initial thread (OpenMP with OMP_PROC_BIND).
std::vector<Cpu> usable_cpus();

// CPUs' worth of time that the control group grants (Kubernetes limits, docker --cpus), rounded up;
// 0 when it is not limited. `root` replaces "/" in tests.
uint32_t cpu_quota(const std::string& root = "/");

// Threads that compute at the same time on that many CPUs: one each, within the quota, at least 1.
uint32_t worker_count(size_t cpus, const std::string& root = "/");

// The share of rank `rank` of `ranks` on this machine: whole cores as far as they go round, in the
// order of usable_cpus. All of `cpus` when there are fewer of them than ranks.
std::vector<Cpu> cpus_of_rank(std::span<const Cpu> cpus, uint32_t rank, uint32_t ranks);

// Sets the calling thread's mask. False when the system refuses.
bool restrict_thread(std::span<const Cpu> cpus);

// Moves the calling thread to `cpu` now and leaves its mask as wide as it was, so that threads
// which it creates later do not inherit a narrow one. No effect when the mask does not have `cpu`.
void move_thread(int cpu);

// The CPU that the calling thread runs on; -1 when unknown.
int current_cpu();

}  // namespace megatron
