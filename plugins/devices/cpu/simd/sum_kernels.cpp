#include "simd/sum_kernels.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/sum_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace {

// Eight rows at a time: the sums are loaded and stored once for all of them.
template <int kRows>
HWY_INLINE void add_rows(const float* x, int64_t stride, int64_t columns, float* out) {
  const D d;
  const int64_t step = lanes();
  int64_t c = 0;
  for (; c + step <= columns; c += step) {
    V sum = hn::LoadU(d, out + c);
    for (int r = 0; r < kRows; ++r) sum = hn::Add(sum, hn::LoadU(d, x + r * stride + c));
    hn::StoreU(sum, d, out + c);
  }
  for (; c < columns; ++c) {
    for (int r = 0; r < kRows; ++r) out[c] += x[r * stride + c];
  }
}

void column_sums(const float* x, int64_t stride, int64_t rows, int64_t columns, float* out) {
  std::fill_n(out, columns, 0.0f);
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) add_rows<8>(x + r * stride, stride, columns, out);
  for (; r < rows; ++r) add_rows<1>(x + r * stride, stride, columns, out);
}

void add(const float* x, float* y, int64_t n) { add_rows<1>(x, n, n, y); }

#if HWY_HAVE_FLOAT64
template <bool kSquares>
double sum_double(const float* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const auto add_term = [&](hn::Vec<decltype(d)> sum, const float* p) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(half, p));
    return kSquares ? hn::MulAdd(v, v, sum) : hn::Add(sum, v);
  };
  int64_t i = 0;
  for (; i + 4 * step <= n; i += 4 * step) {
    s0 = add_term(s0, x + i);
    s1 = add_term(s1, x + i + step);
    s2 = add_term(s2, x + i + 2 * step);
    s3 = add_term(s3, x + i + 3 * step);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    sum += kSquares ? v * v : v;
  }
  return sum;
}
#else
template <bool kSquares>
double sum_double(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    sum += kSquares ? v * v : v;
  }
  return sum;
}
#endif

const SumKernels& table() {
  static constexpr SumKernels kTable = {column_sums, sum_double<false>, sum_double<true>, add};
  return kTable;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(table);

const SumKernels& sum_kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace megatron::cpu
#endif
