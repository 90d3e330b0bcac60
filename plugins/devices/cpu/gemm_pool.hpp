// Runs a GemmPlan on the host's thread pool.
#pragma once

#include "gemm/gemm.hpp"
#include "megatron/host.hpp"

namespace megatron::cpu {

struct GemmOnHost {
  const Host& host;

  int workers() const { return static_cast<int>(host.workers()); }
  template <class Task>
  void parallel_for(int64_t tasks, const Task& task) {
    host.parallel_for(tasks,
                      [&](int64_t t, uint32_t worker) { task(t, static_cast<int>(worker)); });
  }
};

inline uint64_t gemm_workspace(const GemmPlan& plan, const Host& host) {
  return static_cast<uint64_t>(plan.workspace_bytes(static_cast<int>(host.workers())));
}

inline void run_gemm(const GemmPlan& plan, const Host& host, const float* a, const float* b,
                     float* c, float alpha, bool accumulate, void* workspace) {
  GemmOnHost pool{host};
  plan.run(pool, a, b, c, alpha, accumulate, workspace);
}

}  // namespace megatron::cpu
