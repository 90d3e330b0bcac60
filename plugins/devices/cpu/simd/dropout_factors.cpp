#include "simd/dropout_factors.hpp"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/dropout_factors.cpp"
#include <hwy/foreach_target.h>
//
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void factors(const RandomStream& stream, uint64_t sample, uint64_t first, int64_t n,
             DropoutRate rate, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = stream.bits(first + static_cast<uint64_t>(i), sample);
    out[i] = (bits >> 8) < rate.threshold ? 0.0f : rate.keep;
  }
}

#else

using VU = hn::Vec<DU>;

// High and low halves of a · m, lane by lane.
HWY_INLINE void multiply(VU a, VU m, VU& high, VU& low) {
  const DU d;
  const hn::Repartition<uint64_t, DU> d64;
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), m);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// Factors of the blocks first, first + 1, … (one a lane), four elements each, in element order.
HWY_INLINE void factors_of_blocks(uint64_t key, uint64_t first, uint64_t sample, DropoutRate rate,
                                  float* out) {
  const DU du;
  const DI di;
  const D d;
  const VU base = hn::Set(du, static_cast<uint32_t>(first));
  VU c0 = hn::Add(base, hn::Iota(du, 0));
  // A lane that wrapped around carries into the high word.
  const auto carry = hn::Lt(c0, base);
  VU c1 = hn::Sub(hn::Set(du, static_cast<uint32_t>(first >> 32)), hn::VecFromMask(du, carry));
  VU c2 = hn::Set(du, static_cast<uint32_t>(sample));
  VU c3 = hn::Set(du, static_cast<uint32_t>(sample >> 32));
  const VU m0 = hn::Set(du, 0xD2511F53u), m1 = hn::Set(du, 0xCD9E8D57u);
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    VU high0, low0, high1, low1;
    multiply(c0, m0, high0, low0);
    multiply(c2, m1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(du, k0));
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(du, k1));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const VI threshold = hn::Set(di, static_cast<int32_t>(rate.threshold));
  const V keep = constant(rate.keep);
  const auto factor = [&](VU bits) HWY_ATTR {
    const auto dropped = hn::Lt(hn::BitCast(di, hn::ShiftRight<8>(bits)), threshold);
    return hn::IfThenZeroElse(hn::RebindMask(d, dropped), keep);
  };
  hn::StoreInterleaved4(factor(c0), factor(c1), factor(c2), factor(c3), d, out);
}

void factors(const RandomStream& stream, uint64_t sample, uint64_t first, int64_t n,
             DropoutRate rate, float* out) {
  const int64_t step = 4 * lanes();  // draws at a time
  uint64_t block = first / 4;
  int64_t skip = static_cast<int64_t>(first % 4);
  HWY_ALIGN float buffer[4 * hn::MaxLanes(D())];
  while (n > 0) {
    if (skip == 0 && n >= step) {
      factors_of_blocks(stream.key, block, sample, rate, out);
      n -= step;
      out += step;
    } else {
      factors_of_blocks(stream.key, block, sample, rate, buffer);
      const int64_t take = std::min(n, step - skip);
      std::copy_n(buffer + skip, take, out);
      n -= take;
      out += take;
      skip = 0;  // from here on whole blocks
    }
    block += static_cast<uint64_t>(step / 4);
  }
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(factors);

DropoutRate DropoutRate::of(double p) {
  return {static_cast<uint32_t>(std::ceil(p * 0x1p24)), static_cast<float>(1 / (1 - p))};
}

void dropout_factors(const RandomStream& stream, uint64_t sample, uint64_t first, int64_t n,
                     DropoutRate rate, float* out) {
  HWY_DYNAMIC_DISPATCH(factors)(stream, sample, first, n, rate, out);
}

}  // namespace megatron::cpu
#endif
