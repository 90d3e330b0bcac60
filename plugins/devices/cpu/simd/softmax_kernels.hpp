// Rows of scores: the exponentials of attention and of cross entropy. Compiled once per instruction
// set; nothing allocates. exp is that of simd/math-inl.h (1.1 ulp).
#pragma once

#include <cstdint>

namespace megatron::cpu {

// A tile s[rows][columns], `stride` floats between rows. Row i sees its first `first + i·step`
// columns (clamped to [0, columns]): under a causal mask the keys up to its own position.
struct ScoreTile {
  float* s;
  int64_t stride;
  int64_t rows, columns;
  int64_t first, step;
};

struct SoftmaxKernels {
  // One step of the online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867): with m' the
  // larger of max[i] and the row's scores, s = exp(s − m'), 0 where unseen; max = m', shrink =
  // exp(max − m'), sum = sum·shrink + Σ s. A row that has seen nothing keeps max = −inf, sum = 0.
  void (*forward)(const ScoreTile& tile, float* max, float* sum, float* shrink);

  // With p = exp(s − lse[i]), 0 where unseen, and z the dropout factors (null: 1; strides as s):
  //   s = p·z,  dp = p·(dp·z − delta[i])·scale
  void (*backward)(const ScoreTile& tile, float* dp, const float* z, const float* lse,
                   const float* delta, float scale);

  // x[i] *= factor[i] for each row of x[rows][columns].
  void (*scale_rows)(float* x, int64_t stride, int64_t rows, int64_t columns, const float* factor);
  // x[i] *= y[i], n floats.
  void (*multiply)(float* x, const float* y, int64_t n);
  float (*dot)(const float* a, const float* b, int64_t n);
  // out = a·wa + b·wb
  void (*blend)(const float* a, float wa, const float* b, float wb, float* out, int64_t n);

  float (*largest)(const float* x, int64_t n);  // −inf when n = 0
  // Σ exp(x − shift), added up in double from short pieces; the second one also stores exp(x −
  // shift).
  double (*exp_sum)(const float* x, float shift, int64_t n);
  double (*exp_in_place)(float* x, float shift, int64_t n);
  // x = exp(x − shift)·factor
  void (*exp_scaled)(float* x, float shift, float factor, int64_t n);
  void (*scale)(float* x, float factor, int64_t n);
};

const SoftmaxKernels& softmax_kernels();

}  // namespace megatron::cpu
