// Blocking of one FP32 GEMM over caches and workers; the arithmetic is in gemm_kernels.cpp.
#include "gemm.hpp"

#include <algorithm>
#include <cstdlib>

#include "gemm_kernels.hpp"

namespace megatron::cpu {
namespace {

constexpr int64_t kAlign = 16;  // floats in 64 bytes

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Length of equal pieces, a multiple of `unit`, none longer than about `target`.
int64_t even_piece(int64_t total, int64_t target, int64_t unit) {
  const int64_t pieces = std::max<int64_t>(1, ceil_div(total, target));
  return std::max(unit, round_up(ceil_div(total, pieces), unit));
}
int64_t env(const char* n, int64_t d) { const char* e = std::getenv(n); return e ? atol(e) : d; }

}  // namespace

struct GemmPlan::Operands {
  const float* a;
  const float* b;
  float* c;
  float alpha;
  bool accumulate;
  float* packed_b;
  float* packed_a;  // one block per worker
  int64_t n0, n_count, k0, k_count;  // current super-block
};

GemmPlan GemmPlan::make(const GemmShape& shape) { return GemmPlan(shape); }

GemmPlan::GemmPlan(const GemmShape& shape) : shape_(shape), kernels_(&gemm_kernels()) {
  const int64_t nr = kernels_->nr, mr = kernels_->mr;
  block_k_ = even_piece(shape.k, env("KC", 384), 8);
  super_n_ = even_piece(shape.n, 4096, nr);
  super_k_ = std::max(block_k_, env("SB", 4 << 20) / super_n_ / block_k_ * block_k_);
  super_k_ = even_piece(shape.k, super_k_, block_k_);
  task_m_ = even_piece(shape.m, env("MT", 96), mr);
  task_n_ = even_piece(super_n_, env("NT", 384), nr);
  pack_panels_ = env("PP", 4);
  bands_ = env("BANDS", 0);
  pack_a_ = shape.form == GemmForm::tn || env("PA", 0);
}

int64_t GemmPlan::workspace_bytes(int workers) const {
  const int64_t packed_b = round_up(std::min(super_n_, shape_.n), kernels_->nr) * std::min(super_k_, shape_.k);
  const int64_t packed_a = round_up(task_m_ * (block_k_ + 16) + kernels_->mr, kAlign);
  return static_cast<int64_t>(sizeof(float)) * (round_up(packed_b, kAlign) + (pack_a_ ? packed_a * workers : 0));
}

void GemmPlan::scale_or_clear(float* c, bool accumulate) const {
  if (accumulate) return;
  for (int64_t i = 0; i < shape_.m; ++i) std::fill_n(c + i * shape_.ldc, shape_.n, 0.0f);
}

void GemmPlan::pack_b_task(const Operands& o, int64_t task) const {
  const int64_t nr = kernels_->nr, groups = ceil_div(ceil_div(o.n_count, nr), pack_panels_);
  const int64_t k = task / groups * block_k_, k_count = std::min(block_k_, o.k_count - k);
  const int64_t first = task % groups * pack_panels_ * nr;
  const int64_t last = std::min(o.n_count, first + pack_panels_ * nr);
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
  const int64_t nr = kernels_->nr, columns = ceil_div(o.n_count, task_n_);
  const int64_t i = task / columns * task_m_, j = task % columns * task_n_;
  BlockProduct p{};
  p.m = std::min(task_m_, shape_.m - i);
  p.n = std::min(task_n_, o.n_count - j);
  p.c = o.c + i * shape_.ldc + o.n0 + j;
  p.ldc = shape_.ldc;
  p.alpha = o.alpha;
  p.b_stride = nr;
  for (int64_t k = 0; k < o.k_count; k += block_k_) {
    p.k = std::min(block_k_, o.k_count - k);
    p.b = o.packed_b + k * round_up(o.n_count, nr) + j * p.k;
    p.b_panel_step = nr * p.k;
    if (shape_.form == GemmForm::tn) {
      float* packed = o.packed_a + worker * round_up(task_m_ * (block_k_ + 16) + kernels_->mr, kAlign);
      kernels_->pack_a_from_km(o.a + (o.k0 + k) * shape_.lda + i, shape_.lda, p.m, p.k, packed);
      p.a = packed;
      p.a_order = AOrder::cols;
      p.a_stride = kernels_->mr;
      p.a_tile_step = kernels_->mr * p.k;
    } else {
      p.a = o.a + i * shape_.lda + o.k0 + k;
      p.a_order = AOrder::rows;
      p.a_stride = shape_.lda;
      if (pack_a_) {
        float* packed = o.packed_a + worker * round_up(task_m_ * (block_k_ + 16) + kernels_->mr, kAlign);
        for (int64_t r = 0; r < p.m; ++r) std::copy_n(p.a + r * shape_.lda, p.k, packed + r * (p.k + 16));
        p.a = packed;
        p.a_stride = p.k + 16;
      }
      p.a_tile_step = kernels_->mr * p.a_stride;
    }
    p.accumulate = o.accumulate || o.k0 + k > 0;
    kernels_->multiply(p);
  }
}

void GemmPlan::run_on(const GemmPool& pool, const float* a, const float* b, float* c, float alpha,
                      bool accumulate, void* workspace) const {
  if (shape_.m == 0 || shape_.n == 0) return;
  if (shape_.k == 0) return scale_or_clear(c, accumulate);
  if (shape_.form != GemmForm::tn && bands_) {
    const int64_t nr = kernels_->nr, columns = ceil_div(shape_.n, task_n_);
    pool.parallel_for(pool.pool, ceil_div(shape_.m, task_m_) * columns, [&](int64_t task, int worker) {
      const int64_t i = task / columns * task_m_, j = task % columns * task_n_;
      float* packed = static_cast<float*>(workspace) + worker * task_n_ * block_k_;
      BlockProduct p{};
      p.m = std::min(task_m_, shape_.m - i);
      p.n = std::min(task_n_, shape_.n - j);
      p.c = c + i * shape_.ldc + j;
      p.ldc = shape_.ldc;
      p.alpha = alpha;
      p.b_stride = nr;
      p.a_order = AOrder::rows;
      p.a_stride = shape_.lda;
      p.a_tile_step = kernels_->mr * shape_.lda;
      p.b = packed;
      for (int64_t k = 0; k < shape_.k; k += block_k_) {
        p.k = std::min(block_k_, shape_.k - k);
        p.b_panel_step = nr * p.k;
        p.a = a + i * shape_.lda + k;
        p.accumulate = accumulate || k > 0;
        if (shape_.form == GemmForm::nt) {
          kernels_->pack_b_from_nk(b + j * shape_.ldb + k, shape_.ldb, p.k, p.n, packed);
        } else {
          kernels_->pack_b_from_kn(b + k * shape_.ldb + j, shape_.ldb, p.k, p.n, packed);
        }
        kernels_->multiply_bands(p);
      }
    });
    return;
  }
  Operands o{a, b, c, alpha, accumulate, static_cast<float*>(workspace), nullptr, 0, 0, 0, 0};
  o.packed_a = o.packed_b + round_up(round_up(std::min(super_n_, shape_.n), kernels_->nr) * std::min(super_k_, shape_.k), kAlign);
  for (o.n0 = 0; o.n0 < shape_.n; o.n0 += super_n_) {
    o.n_count = std::min(super_n_, shape_.n - o.n0);
    for (o.k0 = 0; o.k0 < shape_.k; o.k0 += super_k_) {
      o.k_count = std::min(super_k_, shape_.k - o.k0);
      const int64_t groups = ceil_div(ceil_div(o.n_count, kernels_->nr), pack_panels_);
      pool.parallel_for(pool.pool, groups * ceil_div(o.k_count, block_k_),
                        [&](int64_t task, int) { pack_b_task(o, task); });
      pool.parallel_for(pool.pool, ceil_div(shape_.m, task_m_) * ceil_div(o.n_count, task_n_),
                        [&](int64_t task, int worker) { multiply_task(o, task, worker); });
    }
  }
}

// One packed panel of B at a time, kept in the first-level cache and multiplied by all rows.
constexpr int64_t kSerialK = 512;

int64_t GemmPlan::serial_workspace_bytes() const {
  return static_cast<int64_t>(sizeof(float)) * kernels_->nr * std::min(kSerialK, shape_.k);
}

void GemmPlan::run_serial(const float* a, const float* b, float* c, float alpha, bool accumulate,
                          void* workspace) const {
  const GemmShape& s = shape_;
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale_or_clear(c, accumulate);
  static int64_t direct_rows = env("DR", 0);
  const bool in_place = s.form != GemmForm::nt && s.n % kernels_->lanes == 0 && s.m <= direct_rows;
  float* packed = static_cast<float*>(workspace);
  const int64_t nr = kernels_->nr, mr = kernels_->mr;
  BlockProduct p{};
  p.m = s.m;
  p.ldc = s.ldc;
  p.alpha = alpha;
  p.a_stride = s.lda;
  p.a_order = s.form == GemmForm::tn ? AOrder::cols : AOrder::rows;
  p.a_tile_step = s.form == GemmForm::tn ? mr : mr * s.lda;
  for (int64_t k = 0; k < s.k; k += kSerialK) {
    p.k = std::min(kSerialK, s.k - k);
    p.a = s.form == GemmForm::tn ? a + k * s.lda : a + k;
    p.accumulate = accumulate || k > 0;
    if (in_place) {
      p.n = s.n;
      p.b = b + k * s.ldb;
      p.b_stride = s.ldb;
      p.b_panel_step = nr;
      p.c = c;
      kernels_->multiply(p);
      continue;
    }
    p.b = packed;
    p.b_stride = nr;
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
