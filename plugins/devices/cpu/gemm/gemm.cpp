// Blocking of one FP32 GEMM over caches and workers; the arithmetic is in gemm_kernels.cpp.
#include "gemm.hpp"

#include <algorithm>

#include "gemm_kernels.hpp"

namespace megatron::cpu {
namespace {

constexpr int64_t kAlign = 16;  // floats in 64 bytes

// Measured on Zen 3 (README.md): a packed panel of B stays in the first-level cache, a task's rows
// of A in the second-level one, a super-block of B in the last-level one.
constexpr int64_t kBlockK = 384;
constexpr int64_t kSuperN = 4096;
constexpr int64_t kSuperFloats = int64_t{4} << 20;
constexpr int64_t kTaskM = 96;
constexpr int64_t kTaskN = 384;
constexpr int64_t kPackPanels = 4;  // panels of B that one task packs
constexpr int64_t kSerialK = 512;   // run_serial: one panel of B, in the first-level cache

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Length of equal pieces, a multiple of `unit`, none longer than about `target`.
int64_t even_piece(int64_t total, int64_t target, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(total, target));
  return std::max(unit, round_up(ceil_div(total, pieces), unit));
}

void clear(float* c, const GemmShape& s) {
  for (int64_t i = 0; i < s.m; ++i) std::fill_n(c + i * s.ldc, s.n, 0.0f);
}

}  // namespace

struct GemmPlan::Operands {
  const float* a;
  const float* b;
  float* c;
  float alpha;
  bool accumulate;
  float* packed_b;
  float* packed_a;                                   // one block per worker
  int64_t n0 = 0, n_count = 0, k0 = 0, k_count = 0;  // current super-block
};

GemmPlan GemmPlan::make(const GemmShape& shape) { return GemmPlan(shape); }

GemmPlan::GemmPlan(const GemmShape& shape) : shape_(shape), kernels_(&gemm_kernels()) {
  const int64_t nr = kernels_->nr, mr = kernels_->mr;
  block_k_ = even_piece(shape.k, kBlockK, 8);
  super_n_ = even_piece(shape.n, kSuperN, nr);
  super_k_ = std::max(block_k_, kSuperFloats / super_n_ / block_k_ * block_k_);
  super_k_ = even_piece(shape.k, super_k_, block_k_);
  task_m_ = even_piece(shape.m, kTaskM, mr);
  task_n_ = even_piece(super_n_, kTaskN, nr);
}

// Floats of a packed super-block of B, and of one worker's packed block of A: only the transposed
// operand is packed, rows are used in place.
int64_t GemmPlan::packed_b_floats() const {
  const int64_t columns = round_up(std::min(super_n_, shape_.n), kernels_->nr);
  return round_up(columns * std::min(super_k_, shape_.k), kAlign);
}
int64_t GemmPlan::packed_a_floats() const {
  if (shape_.form != GemmForm::tn) return 0;
  return round_up(task_m_ * block_k_ + kernels_->mr, kAlign);
}

int64_t GemmPlan::workspace_bytes(int workers) const {
  return static_cast<int64_t>(sizeof(float)) * (packed_b_floats() + packed_a_floats() * workers);
}

void GemmPlan::pack_b_task(const Operands& o, int64_t task) const {
  const int64_t nr = kernels_->nr, groups = ceil_div(ceil_div(o.n_count, nr), kPackPanels);
  const int64_t k = task / groups * block_k_, k_count = std::min(block_k_, o.k_count - k);
  const int64_t first = task % groups * kPackPanels * nr;
  const int64_t last = std::min(o.n_count, first + kPackPanels * nr);
  float* to = o.packed_b + k * round_up(o.n_count, nr) + first * k_count;
  if (shape_.form == GemmForm::nt) {
    const float* from = o.b + (o.n0 + first) * shape_.ldb + o.k0 + k;
    kernels_->pack_b_from_nk(from, shape_.ldb, k_count, last - first, to);
  } else {
    const float* from = o.b + (o.k0 + k) * shape_.ldb + o.n0 + first;
    kernels_->pack_b_from_kn(from, shape_.ldb, k_count, last - first, to);
  }
}

void GemmPlan::multiply_task(const Operands& o, int64_t task, int worker) const {
  const int64_t nr = kernels_->nr, mr = kernels_->mr, columns = ceil_div(o.n_count, task_n_);
  const int64_t i = task / columns * task_m_, j = task % columns * task_n_;
  BlockProduct p{};
  p.m = std::min(task_m_, shape_.m - i);
  p.n = std::min(task_n_, o.n_count - j);
  p.c = o.c + i * shape_.ldc + o.n0 + j;
  p.ldc = shape_.ldc;
  p.alpha = o.alpha;
  for (int64_t k = 0; k < o.k_count; k += block_k_) {
    p.k = std::min(block_k_, o.k_count - k);
    p.b = o.packed_b + k * round_up(o.n_count, nr) + j * p.k;
    if (shape_.form == GemmForm::tn) {
      float* packed = o.packed_a + worker * packed_a_floats();
      const float* from = o.a + (o.k0 + k) * shape_.lda + i;
      kernels_->pack_a_from_km(from, shape_.lda, p.m, p.k, packed);
      p.a = packed;
      p.a_order = AOrder::columns;
      p.a_stride = mr;
      p.a_tile_step = mr * p.k;
    } else {
      p.a = o.a + i * shape_.lda + o.k0 + k;
      p.a_order = AOrder::rows;
      p.a_stride = shape_.lda;
      p.a_tile_step = mr * shape_.lda;
    }
    p.accumulate = o.accumulate || o.k0 + k > 0;
    kernels_->multiply(p);
  }
}

void GemmPlan::run_on(const GemmPool& pool, const float* a, const float* b, float* c, float alpha,
                      bool accumulate, void* workspace) const {
  if (shape_.m == 0 || shape_.n == 0) return;
  if (shape_.k == 0) {
    if (!accumulate) clear(c, shape_);
    return;
  }
  auto* floats = static_cast<float*>(workspace);
  Operands o{a, b, c, alpha, accumulate, floats, floats + packed_b_floats()};
  for (o.n0 = 0; o.n0 < shape_.n; o.n0 += super_n_) {
    o.n_count = std::min(super_n_, shape_.n - o.n0);
    for (o.k0 = 0; o.k0 < shape_.k; o.k0 += super_k_) {
      o.k_count = std::min(super_k_, shape_.k - o.k0);
      const int64_t groups = ceil_div(ceil_div(o.n_count, kernels_->nr), kPackPanels);
      pool.parallel_for(pool.pool, groups * ceil_div(o.k_count, block_k_),
                        [&](int64_t task, int) { pack_b_task(o, task); });
      pool.parallel_for(pool.pool, ceil_div(shape_.m, task_m_) * ceil_div(o.n_count, task_n_),
                        [&](int64_t task, int worker) { multiply_task(o, task, worker); });
    }
  }
}

int64_t GemmPlan::serial_workspace_bytes() const {
  return static_cast<int64_t>(sizeof(float)) * kernels_->nr * std::min(kSerialK, shape_.k);
}

// One packed panel of B at a time, kept in the first-level cache and multiplied by all rows.
void GemmPlan::run_serial(const float* a, const float* b, float* c, float alpha, bool accumulate,
                          void* workspace) const {
  const GemmShape& s = shape_;
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) {
    if (!accumulate) clear(c, s);
    return;
  }
  auto* packed = static_cast<float*>(workspace);
  const int64_t nr = kernels_->nr, mr = kernels_->mr;
  const bool transposed = s.form == GemmForm::tn;
  BlockProduct p{};
  p.m = s.m;
  p.ldc = s.ldc;
  p.alpha = alpha;
  p.a_stride = s.lda;
  p.a_order = transposed ? AOrder::columns : AOrder::rows;
  p.a_tile_step = transposed ? mr : mr * s.lda;
  p.b = packed;
  for (int64_t k = 0; k < s.k; k += kSerialK) {
    p.k = std::min(kSerialK, s.k - k);
    p.a = transposed ? a + k * s.lda : a + k;
    p.accumulate = accumulate || k > 0;
    for (int64_t j = 0; j < s.n; j += nr) {
      p.n = std::min(nr, s.n - j);
      p.c = c + j;
      if (s.form == GemmForm::nt) {
        kernels_->pack_b_from_nk(b + j * s.ldb + k, s.ldb, p.k, p.n, packed);
      } else {
        kernels_->pack_b_from_kn(b + k * s.ldb + j, s.ldb, p.k, p.n, packed);
      }
      kernels_->multiply(p);
    }
  }
}

}  // namespace megatron::cpu
