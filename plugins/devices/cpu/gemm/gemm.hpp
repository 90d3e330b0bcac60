// FP32 matrix products of the CPU device: C = alpha * op(A) * op(B) [+ C], all operands row-major.
//
// A GemmPlan is made once per compiled operation and then run many times. Its work grid and the
// order of summation follow from the shape (and the processor's vector width) alone: the result has
// the same bits for any number of workers. The method is the packed-panel scheme of Goto & van de
// Geijn (ACM TOMS 2008) with register tiles written on Highway; see gemm_kernels.cpp.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace megatron::cpu {

struct GemmKernels;

enum class GemmForm : uint8_t {
  nt,  // C(m, n) = A(m, k) * B(n, k)^T   forward, Y = X * W^T
  nn,  // C(m, n) = A(m, k) * B(k, n)     gradient of the input, dX = dY * W
  tn,  // C(m, n) = A(k, m)^T * B(k, n)   gradient of the weight, dW = dY^T * X
};

// m, n, k >= 0. Leading dimensions count floats between rows as stored, and are >= the row length.
// No alignment is asked of operands or of leading dimensions.
struct GemmShape {
  GemmForm form;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
};

// A borrowed callable void(int64_t task, int worker), 0 <= worker < workers.
class GemmTask {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, GemmTask>>>
  GemmTask(const F& f)  // NOLINT: implicit by design, as a reference is
      : object_(&f), call_([](const void* object, int64_t task, int worker) {
          (*static_cast<const F*>(object))(task, worker);
        }) {}
  void operator()(int64_t task, int worker) const { call_(object_, task, worker); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int);
};

// A borrowed thread pool: run(pool, tasks, task) calls task(t, w) once for every t in [0, tasks),
// never twice at once with the same w, and returns after the last one.
struct GemmPool {
  void* pool;
  void (*parallel_for)(void* pool, int64_t tasks, const GemmTask& task);
};

class GemmPlan {
 public:
  // Cheap; allocates nothing. The shape is the caller's promise for every run.
  static GemmPlan make(const GemmShape& shape);

  const GemmShape& shape() const { return shape_; }

  // Scratch that run() needs for this many workers; 0 is possible.
  int64_t workspace_bytes(int workers) const;

  // Runs on the pool; any thread may call it, one run per workspace at a time. Allocates nothing.
  // C must not overlap A or B. accumulate: adds to C, else C is only written (may hold NaN before).
  // workspace: 64-byte aligned, workspace_bytes(pool.workers()); huge pages help (see README).
  // Pool: int workers(); void parallel_for(int64_t tasks, callable void(int64_t task, int worker)).
  template <class Pool>
  void run(Pool& pool, const float* a, const float* b, float* c, float alpha, bool accumulate,
           void* workspace) const {
    const GemmPool view{&pool, [](void* p, int64_t tasks, const GemmTask& task) {
                          static_cast<Pool*>(p)->parallel_for(
                              tasks, [&task](int64_t t, int worker) { task(t, worker); });
                        }};
    run_on(view, a, b, c, alpha, accumulate, workspace);
  }
  void run_on(const GemmPool& pool, const float* a, const float* b, float* c, float alpha,
              bool accumulate, void* workspace) const;

  // The same product on the calling thread, for use inside one task (attention tiles). Its bits may
  // differ from run()'s where k is cut differently; they too follow from the shape alone.
  int64_t serial_workspace_bytes() const;
  void run_serial(const float* a, const float* b, float* c, float alpha, bool accumulate,
                  void* workspace) const;

 private:
  struct Operands;
  explicit GemmPlan(const GemmShape& shape);
  int64_t packed_b_floats() const;
  int64_t packed_a_floats() const;
  void pack_b_task(const Operands& o, int64_t task) const;
  void multiply_task(const Operands& o, int64_t task, int worker) const;

  GemmShape shape_;
  const GemmKernels* kernels_;
  // The grid: super-blocks of super_n x super_k of B are packed at once, then multiplied by tasks
  // of task_m x task_n elements of C, which step through k by block_k.
  int64_t block_k_, super_k_, super_n_, task_m_, task_n_;
};

}  // namespace megatron::cpu
