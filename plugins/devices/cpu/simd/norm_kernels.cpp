#include "simd/norm_kernels.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/norm_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace {

// Σ of term(i, n) over a row: one vector at a time, n = lanes, and once with n < lanes at the end
// (lanes behind must then be 0). Four running sums, added in a fixed order.
template <class Term>
HWY_INLINE float sum_row(int64_t k, const Term& term) {
  const D d;
  const int64_t step = lanes();
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * step <= k; i += 4 * step) {
    s0 = hn::Add(s0, term(i, step));
    s1 = hn::Add(s1, term(i + step, step));
    s2 = hn::Add(s2, term(i + 2 * step, step));
    s3 = hn::Add(s3, term(i + 3 * step, step));
  }
  for (; i + step <= k; i += step) s0 = hn::Add(s0, term(i, step));
  if (i < k) {
    const V last = term(i, k - i);
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(k - i)), last));
  }
  return sum_lanes(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

// Whole vectors straight from memory, the last part through a buffer.
HWY_INLINE V load_some(const float* p, int64_t n) {
  return n == lanes() ? hn::LoadU(D(), p) : load_tail(p, n);
}
HWY_INLINE void store_some(V v, float* p, int64_t n) {
  if (n == lanes()) {
    hn::StoreU(v, D(), p);
  } else {
    store_tail(v, p, n);
  }
}
template <class Body>
HWY_INLINE void for_row(int64_t k, const Body& body) {
  const int64_t step = lanes();
  int64_t i = 0;
  for (; i + step <= k; i += step) body(i, step);
  if (i < k) body(i, k - i);
}

void forward(const float* x, const float* gain, const float* bias, float* y, float* mean,
             float* rstd, int64_t rows, int64_t k, float epsilon) {
  const float share = 1.0f / static_cast<float>(k);
  for (int64_t r = 0; r < rows; ++r, x += k, y += k) {
    const float m =
        sum_row(k, [&](int64_t i, int64_t n) HWY_ATTR { return load_some(x + i, n); }) * share;
    const V vm = constant(m);
    const float variance = share * sum_row(k, [&](int64_t i, int64_t n) HWY_ATTR {
                             const V c = hn::Sub(load_some(x + i, n), vm);
                             return hn::Mul(c, c);
                           });
    const float s = 1.0f / std::sqrt(variance + epsilon);
    const V vs = constant(s);
    for_row(k, [&](int64_t i, int64_t n) HWY_ATTR {
      const V xhat = hn::Mul(hn::Sub(load_some(x + i, n), vm), vs);
      store_some(hn::MulAdd(xhat, load_some(gain + i, n), load_some(bias + i, n)), y + i, n);
    });
    mean[r] = m;
    rstd[r] = s;
  }
}

void backward(const float* dy, const float* x, const float* mean, const float* rstd,
              const float* gain, float* dx, int64_t rows, int64_t k) {
  const float share = 1.0f / static_cast<float>(k);
  for (int64_t r = 0; r < rows; ++r, dy += k, x += k, dx += k) {
    const V vm = constant(mean[r]), vs = constant(rstd[r]);
    const auto g = [&](int64_t i, int64_t n)
                       HWY_ATTR { return hn::Mul(load_some(dy + i, n), load_some(gain + i, n)); };
    const auto xhat = [&](int64_t i, int64_t n)
                          HWY_ATTR { return hn::Mul(hn::Sub(load_some(x + i, n), vm), vs); };
    const V mean_g = constant(share * sum_row(k, g));
    const V mean_gx = constant(share * sum_row(k, [&](int64_t i, int64_t n) HWY_ATTR {
                                 return hn::Mul(g(i, n), xhat(i, n));
                               }));
    for_row(k, [&](int64_t i, int64_t n) HWY_ATTR {
      const V centred = hn::Sub(g(i, n), hn::MulAdd(xhat(i, n), mean_gx, mean_g));
      store_some(hn::Mul(vs, centred), dx + i, n);
    });
  }
}

// `rows` <= 4 rows into the sums, so that the sums are loaded once for all of them.
template <int kRows>
HWY_INLINE void add_parameter_rows(const float* dy, const float* x, const float* mean,
                                   const float* rstd, float* dgain, float* dbias, int64_t k) {
  for_row(k, [&](int64_t i, int64_t n) HWY_ATTR {
    V sum_gain = load_some(dgain + i, n), sum_bias = load_some(dbias + i, n);
    for (int r = 0; r < kRows; ++r) {
      const V g = load_some(dy + r * k + i, n);
      const V centred = hn::Sub(load_some(x + r * k + i, n), constant(mean[r]));
      sum_gain = hn::MulAdd(g, hn::Mul(centred, constant(rstd[r])), sum_gain);
      sum_bias = hn::Add(sum_bias, g);
    }
    store_some(sum_gain, dgain + i, n);
    store_some(sum_bias, dbias + i, n);
  });
}

void parameters(const float* dy, const float* x, const float* mean, const float* rstd, float* dgain,
                float* dbias, int64_t rows, int64_t k) {
  std::fill_n(dgain, k, 0.0f);
  std::fill_n(dbias, k, 0.0f);
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    add_parameter_rows<4>(dy + r * k, x + r * k, mean + r, rstd + r, dgain, dbias, k);
  }
  for (; r < rows; ++r) {
    add_parameter_rows<1>(dy + r * k, x + r * k, mean + r, rstd + r, dgain, dbias, k);
  }
}

const NormKernels& table() {
  static constexpr NormKernels kTable = {forward, backward, parameters};
  return kTable;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(table);

const NormKernels& norm_kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace megatron::cpu
#endif
