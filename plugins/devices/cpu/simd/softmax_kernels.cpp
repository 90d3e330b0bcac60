#include "simd/softmax_kernels.hpp"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/softmax_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The largest of n floats. x86 takes the second operand of a maximum when one is NaN, so what may
// hold a NaN stands there (m0, if any of them): a row of NaN alone must not look empty.
float largest(const float* x, int64_t n) {
  const D d;
  const int64_t step = lanes();
  V m0 = constant(kMinusInfinity), m1 = m0, m2 = m0, m3 = m0;
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + step));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * step));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * step));
  }
  for (; i + step <= n; i += step) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  float m = max_lanes(hn::Max(hn::Max(m3, m2), hn::Max(m1, m0)));
  for (; i < n; ++i) m = x[i] <= m ? m : x[i];
  return m;
}

// Σ exp(x − shift) over n floats in one float sum a lane; stores the exponentials when kStore.
template <bool kStore>
HWY_INLINE float exp_piece(const float* x, float shift, int64_t n, float* out) {
  const D d;
  const int64_t step = lanes();
  const V vs = constant(shift);
  V s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    const V e0 = exp_weight(hn::Sub(hn::LoadU(d, x + i), vs));
    const V e1 = exp_weight(hn::Sub(hn::LoadU(d, x + i + step), vs));
    if (kStore) {
      hn::StoreU(e0, d, out + i);
      hn::StoreU(e1, d, out + i + step);
    }
    s0 = hn::Add(s0, e0);
    s1 = hn::Add(s1, e1);
  }
  for (; i + step <= n; i += step) {
    const V e = exp_weight(hn::Sub(hn::LoadU(d, x + i), vs));
    if (kStore) hn::StoreU(e, d, out + i);
    s0 = hn::Add(s0, e);
  }
  if (i < n) {
    const V e = exp_weight(hn::Sub(load_tail(x + i, n - i), vs));
    if (kStore) store_tail(e, out + i, n - i);
    // Lanes behind the end hold exp(−shift).
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), e));
  }
  return sum_lanes(hn::Add(s0, s1));
}

constexpr int64_t kPiece = 512;  // floats summed in single precision

template <bool kStore>
double exp_pieces(const float* x, float shift, int64_t n, float* out) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    sum += static_cast<double>(
        exp_piece<kStore>(x + i, shift, std::min(kPiece, n - i), kStore ? out + i : nullptr));
  }
  return sum;
}
double exp_sum(const float* x, float shift, int64_t n) {
  return exp_pieces<false>(x, shift, n, nullptr);
}
double exp_in_place(float* x, float shift, int64_t n) { return exp_pieces<true>(x, shift, n, x); }

void exp_scaled(float* x, float shift, float factor, int64_t n) {
  const D d;
  const int64_t step = lanes();
  const V vs = constant(shift), vf = constant(factor);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    hn::StoreU(hn::Mul(vf, exp_weight(hn::Sub(hn::LoadU(d, x + i), vs))), d, x + i);
  }
  if (i < n) {
    store_tail(hn::Mul(vf, exp_weight(hn::Sub(load_tail(x + i, n - i), vs))), x + i, n - i);
  }
}

void scale(float* x, float factor, int64_t n) {
  const D d;
  const int64_t step = lanes();
  const V vf = constant(factor);
  int64_t i = 0;
  for (; i + step <= n; i += step) hn::StoreU(hn::Mul(vf, hn::LoadU(d, x + i)), d, x + i);
  for (; i < n; ++i) x[i] *= factor;
}

void multiply(float* x, const float* y, int64_t n) {
  const D d;
  const int64_t step = lanes();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, x + i);
  }
  for (; i < n; ++i) x[i] *= y[i];
}

float dot(const float* a, const float* b, int64_t n) {
  const D d;
  const int64_t step = lanes();
  V s0 = hn::Zero(d), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + step), hn::LoadU(d, b + i + step), s1);
  }
  float sum = sum_lanes(hn::Add(s0, s1));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void blend(const float* a, float wa, const float* b, float wb, float* out, int64_t n) {
  const D d;
  const int64_t step = lanes();
  const V va = constant(wa), vb = constant(wb);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const V scaled = hn::Mul(vb, hn::LoadU(d, b + i));
    hn::StoreU(hn::MulAdd(va, hn::LoadU(d, a + i), scaled), d, out + i);
  }
  for (; i < n; ++i) out[i] = wa * a[i] + wb * b[i];
}

void scale_rows(float* x, int64_t stride, int64_t rows, int64_t columns, const float* factor) {
  for (int64_t r = 0; r < rows; ++r) {
    if (factor[r] != 1.0f) scale(x + r * stride, factor[r], columns);
  }
}

HWY_INLINE int64_t seen(const ScoreTile& t, int64_t row) {
  return std::clamp<int64_t>(t.first + row * t.step, 0, t.columns);
}

HWY_INLINE float exp_of(float x) { return hn::GetLane(exp_weight(constant(x))); }

void forward(const ScoreTile& t, float* max, float* sum, float* shrink) {
  for (int64_t r = 0; r < t.rows; ++r) {
    float* s = t.s + r * t.stride;
    const int64_t n = seen(t, r);
    const float before = max[r];
    const float here = largest(s, n);
    const float now = here <= before ? before : here;
    std::fill(s + n, s + t.columns, 0.0f);
    if (now == kMinusInfinity) {  // nothing to see yet: the difference would be NaN
      std::fill(s, s + n, 0.0f);
      shrink[r] = 1.0f;
      continue;
    }
    shrink[r] = before == kMinusInfinity ? 0.0f : exp_of(before - now);
    sum[r] = sum[r] * shrink[r] + exp_piece<true>(s, now, n, s);
    max[r] = now;
  }
}

template <bool kDropout>
HWY_INLINE void backward_row(float* s, float* dp, const float* z, int64_t n, float lse, float delta,
                             float scale_by) {
  const D d;
  const int64_t step = lanes();
  const V vl = constant(lse), vd = constant(delta), vs = constant(scale_by);
  const auto both = [&](V score, V grad, V factor, V& weight) HWY_ATTR {
    const V p = exp_weight(hn::Sub(score, vl));
    weight = kDropout ? hn::Mul(p, factor) : p;
    const V g = kDropout ? hn::MulSub(grad, factor, vd) : hn::Sub(grad, vd);
    return hn::Mul(hn::Mul(p, g), vs);
  };
  int64_t i = 0;
  V weight;
  for (; i + step <= n; i += step) {
    const V factor = kDropout ? hn::LoadU(d, z + i) : hn::Zero(d);
    const V ds = both(hn::LoadU(d, s + i), hn::LoadU(d, dp + i), factor, weight);
    hn::StoreU(weight, d, s + i);
    hn::StoreU(ds, d, dp + i);
  }
  if (i == n) return;
  const V factor = kDropout ? load_tail(z + i, n - i) : hn::Zero(d);
  const V ds = both(load_tail(s + i, n - i), load_tail(dp + i, n - i), factor, weight);
  store_tail(weight, s + i, n - i);
  store_tail(ds, dp + i, n - i);
}

void backward(const ScoreTile& t, float* dp, const float* z, const float* lse, const float* delta,
              float scale_by) {
  for (int64_t r = 0; r < t.rows; ++r) {
    float* s = t.s + r * t.stride;
    float* g = dp + r * t.stride;
    const int64_t n = lse[r] == kMinusInfinity ? 0 : seen(t, r);
    if (z != nullptr) {
      backward_row<true>(s, g, z + r * t.stride, n, lse[r], delta[r], scale_by);
    } else {
      backward_row<false>(s, g, nullptr, n, lse[r], delta[r], scale_by);
    }
    std::fill(s + n, s + t.columns, 0.0f);
    std::fill(g + n, g + t.columns, 0.0f);
  }
}

const SoftmaxKernels& table() {
  static constexpr SoftmaxKernels kTable = {forward,      backward,   scale_rows, multiply,
                                            dot,          blend,      largest,    exp_sum,
                                            exp_in_place, exp_scaled, scale};
  return kTable;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(table);

const SoftmaxKernels& softmax_kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace megatron::cpu
#endif
