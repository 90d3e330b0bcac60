// Elementary functions on vectors, once per instruction set. Polynomials after Moshier's Cephes
// (single precision), with fused multiply-adds where the processor has them. Largest errors,
// measured over their ranges by tests/unit/devices/math_test.cpp: exp 1.1 ulp, log 1.0 ulp,
// tanh 1.5 ulp. NaN goes through; no function raises or reads memory.
#if defined(MEGATRON_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEGATRON_CPU_MATH_INL_H_
#undef MEGATRON_CPU_MATH_INL_H_
#else
#define MEGATRON_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;
using DU = hn::ScalableTag<uint32_t>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

HWY_INLINE V constant(float x) { return hn::Set(D(), x); }
HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// n < lanes floats at p, zeros behind them; never touches memory outside.
HWY_INLINE V load_tail(const float* p, int64_t n) {
  const D d;
  HWY_ALIGN float buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(float));
  return hn::Load(d, buffer);
}
HWY_INLINE void store_tail(V v, float* p, int64_t n) {
  const D d;
  HWY_ALIGN float buffer[hn::MaxLanes(D())];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(float));
}

// Sum and largest of the lanes, in a fixed order.
HWY_INLINE float sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
HWY_INLINE float max_lanes(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }

// The maximum that keeps NaN.
HWY_INLINE V max_or_nan(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Gt(a, b)), a, b);
}

// 2^n as a float, -126 <= n <= 127; 0 for n = -127.
HWY_INLINE V power_of_two(VI n) {
  return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127))));
}

// e^r for |r| <= ln(2)/2, where x = n·ln(2) + r.
HWY_INLINE V exp_reduced(V x, VI& n) {
  const V rounded = hn::Round(hn::Mul(x, constant(1.44269504088896341f)));
  n = hn::ConvertTo(DI(), rounded);
  V r = hn::NegMulAdd(rounded, constant(0.693359375f), x);
  r = hn::NegMulAdd(rounded, constant(-2.12194440e-4f), r);
  V p = hn::MulAdd(constant(1.9875691500e-4f), r, constant(1.3981999507e-3f));
  p = hn::MulAdd(p, r, constant(8.3334519073e-3f));
  p = hn::MulAdd(p, r, constant(4.1665795894e-2f));
  p = hn::MulAdd(p, r, constant(1.6666665459e-1f));
  p = hn::MulAdd(p, r, constant(5.0000001201e-1f));
  return hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), constant(1.0f));
}

// e^x over the whole range, subnormal results included.
HWY_INLINE V exp(V x) {
  VI n;
  const V p = exp_reduced(hn::Min(hn::Max(x, constant(-104.0f)), constant(89.0f)), n);
  // 2^n in two factors, as n may lie outside what one exponent can hold.
  const VI half = hn::ShiftRight<1>(n);
  const V y = hn::Mul(hn::Mul(p, power_of_two(half)), power_of_two(hn::Sub(n, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// e^x for the weights of a softmax: x <= 88, and results below 2^-126 are 0.
HWY_INLINE V exp_weight(V x) {
  VI n;
  const V p = exp_reduced(hn::Min(hn::Max(x, constant(-88.0f)), constant(88.0f)), n);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Mul(p, power_of_two(n)));
}

HWY_INLINE V log(V x) {
  const D d;
  const DI di;
  // Subnormals are brought into the normal range first.
  const auto tiny = hn::Lt(x, constant(1.17549435e-38f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, constant(8388608.0f)), x);
  const VI bits = hn::BitCast(di, scaled);
  VI e = hn::Sub(hn::And(hn::ShiftRight<23>(bits), hn::Set(di, 0xFF)), hn::Set(di, 126));
  // m in [1/2, 1), then in [sqrt(1/2), sqrt(2)).
  V m = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(di, 0x007FFFFF)), hn::Set(di, 0x3F000000)));
  const auto low = hn::Lt(m, constant(0.707106781186547524f));
  V exponent = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, constant(23.0f)));
  exponent = hn::Sub(exponent, hn::IfThenElseZero(low, constant(1.0f)));
  m = hn::Sub(hn::Add(m, hn::IfThenElseZero(low, m)), constant(1.0f));
  const V z = hn::Mul(m, m);
  V p = hn::MulAdd(constant(7.0376836292e-2f), m, constant(-1.1514610310e-1f));
  p = hn::MulAdd(p, m, constant(1.1676998740e-1f));
  p = hn::MulAdd(p, m, constant(-1.2420140846e-1f));
  p = hn::MulAdd(p, m, constant(1.4249322787e-1f));
  p = hn::MulAdd(p, m, constant(-1.6668057665e-1f));
  p = hn::MulAdd(p, m, constant(2.0000714765e-1f));
  p = hn::MulAdd(p, m, constant(-2.4999993993e-1f));
  p = hn::MulAdd(p, m, constant(3.3333331174e-1f));
  V y = hn::Mul(hn::Mul(m, z), p);
  y = hn::MulAdd(exponent, constant(-2.12194440e-4f), y);
  y = hn::NegMulAdd(constant(0.5f), z, y);
  y = hn::MulAdd(exponent, constant(0.693359375f), hn::Add(m, y));
  const V infinity = hn::Inf(d);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(d)), hn::IsNaN(x)), hn::NaN(d), y);
}

HWY_INLINE V tanh(V x) {
  const V size = hn::Abs(x);
  // Near 0 the difference of exponentials would cancel.
  const V z = hn::Mul(x, x);
  V p = hn::MulAdd(constant(-5.70498872745e-3f), z, constant(2.06390887954e-2f));
  p = hn::MulAdd(p, z, constant(-5.37397155531e-2f));
  p = hn::MulAdd(p, z, constant(1.33314422036e-1f));
  p = hn::MulAdd(p, z, constant(-3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, z), x, x);
  const V e = exp(hn::Add(size, size));
  const V far = hn::Sub(constant(1.0f), hn::Div(constant(2.0f), hn::Add(e, constant(1.0f))));
  return hn::IfThenElse(hn::Lt(size, constant(0.625f)), near, hn::CopySign(far, x));
}

// GELU's tanh form as x·σ(u): 0.5·(1 + tanh(v)) = σ(2v), u = 2·√(2/π)·(x + 0.044715·x³).
HWY_INLINE V gelu_sigmoid(V x) {
  const V inner = hn::MulAdd(hn::Mul(x, x), constant(0.044715f), constant(1.0f));
  const V u = hn::Mul(hn::Mul(x, constant(1.5957691216057308f)), inner);
  return hn::Div(constant(1.0f), hn::Add(constant(1.0f), exp(hn::Neg(u))));
}
HWY_INLINE V gelu(V x) { return hn::Mul(x, gelu_sigmoid(x)); }
// dy·(σ + x·σ·(1−σ)·u')
HWY_INLINE V gelu_grad(V x, V dy) {
  const V s = gelu_sigmoid(x);
  const V slope = hn::Mul(constant(1.5957691216057308f),
                          hn::MulAdd(hn::Mul(x, x), constant(3.0f * 0.044715f), constant(1.0f)));
  const V bend = hn::Mul(hn::Mul(s, hn::Sub(constant(1.0f), s)), hn::Mul(x, slope));
  return hn::Mul(dy, hn::Add(s, bend));
}

}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
