// Register-tile kernels and packing for FP32 GEMM, compiled once per instruction set by Highway.
// Tile shapes follow the usual bound (Goto & van de Geijn 2008; Van Zee & van de Geijn 2015, BLIS):
// mr * (nr / lanes) accumulators cover FMA latency x throughput and still fit the register file.
#include "gemm_kernels.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gemm_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kRows = 8, kVectors = 3;  // 24 of 32 registers accumulate
#else
constexpr int kRows = 6, kVectors = 2;  // 12 of 16 registers accumulate
#endif
constexpr int kCols = kVectors * kLanes;

constexpr int64_t kLine = 16;   // floats in a cache line
constexpr int64_t kAhead = 64;  // floats; prefetch distance along a row of B
#define MGT_UNROLL _Pragma("GCC unroll 16")

// C(R, NV * lanes) = alpha * A * B [+ C]; operands as in BlockProduct. `next` is the part of the
// following panel of B that this tile's share of the loop brings into the second-level cache.
template <int R, int NV, AOrder kOrder>
HWY_INLINE void tile(const float* HWY_RESTRICT a, int64_t a_stride, const float* HWY_RESTRICT b,
                     int64_t k_count, float* HWY_RESTRICT c, int64_t ldc, float alpha,
                     bool accumulate, const float* next) {
  const D d;
  V sum[R][NV];
  const float* row[R];
  MGT_UNROLL for (int i = 0; i < R; ++i) {
    MGT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = hn::Zero(d);
    row[i] = a + i * a_stride;
    hwy::Prefetch(c + i * ldc);
    hwy::Prefetch(c + i * ldc + NV * kLanes - 1);
  }
  const auto step = [&](int64_t k) HWY_ATTR {
    V bv[NV];
    MGT_UNROLL for (int j = 0; j < NV; ++j) bv[j] = hn::LoadU(d, b + j * kLanes);
    MGT_UNROLL for (int i = 0; i < R; ++i) {
      const V av = hn::Set(d, kOrder == AOrder::rows ? row[i][k] : a[i]);
      MGT_UNROLL for (int j = 0; j < NV; ++j) sum[i][j] = hn::MulAdd(av, bv[j], sum[i][j]);
    }
    b += kCols;
    if constexpr (kOrder == AOrder::columns) a += a_stride;
  };
  int64_t k = 0;
  for (; k + kLine <= k_count; next += kLine) {
    __builtin_prefetch(next, 0, 2);
    const int64_t end = k + kLine;
    _Pragma("GCC unroll 4") for (; k < end; ++k) step(k);
  }
  for (; k < k_count; ++k) step(k);
  const V scale = hn::Set(d, alpha);
  MGT_UNROLL for (int i = 0; i < R; ++i) {
    MGT_UNROLL for (int j = 0; j < NV; ++j) {
      float* p = c + i * ldc + j * kLanes;
      const V out =
          accumulate ? hn::MulAdd(scale, sum[i][j], hn::LoadU(d, p)) : hn::Mul(scale, sum[i][j]);
      hn::StoreU(out, d, p);
    }
  }
}

// A column of tiles: all m rows against one panel of NV vectors.
template <int NV, AOrder kOrder>
HWY_NOINLINE void panel(const BlockProduct& p, const float* b, float* c, int64_t ldc) {
  const float* a = p.a;
  const float* next = b + kCols * p.k;
  int64_t left = p.m;
  const auto rows = [&](auto count) HWY_ATTR {
    tile<decltype(count)::value, NV, kOrder>(a, p.a_stride, b, p.k, c, ldc, p.alpha, p.accumulate,
                                             next);
  };
  for (; left >= kRows; left -= kRows, a += p.a_tile_step, c += kRows * ldc, next += p.k) {
    rows(std::integral_constant<int, kRows>());
  }
#define MGT_LAST_ROWS(R)                                                    \
  case R:                                                                   \
    if constexpr (R < kRows) return rows(std::integral_constant<int, R>()); \
    break
  switch (left) {
    MGT_LAST_ROWS(1);
    MGT_LAST_ROWS(2);
    MGT_LAST_ROWS(3);
    MGT_LAST_ROWS(4);
    MGT_LAST_ROWS(5);
    MGT_LAST_ROWS(6);
    MGT_LAST_ROWS(7);
    default:
      break;
  }
#undef MGT_LAST_ROWS
}

template <AOrder kOrder>
HWY_INLINE void panel_of(int vectors, const BlockProduct& p, const float* b, float* c,
                         int64_t ldc) {
  if (vectors == kVectors) return panel<kVectors, kOrder>(p, b, c, ldc);
  if constexpr (kVectors > 2) {
    if (vectors == 2) return panel<2, kOrder>(p, b, c, ldc);
  }
  panel<1, kOrder>(p, b, c, ldc);
}

// The last, partly filled vector of C goes through a small buffer, kRows rows at a time, so that
// no lane outside C is read or written (neighbours may belong to another thread).
template <AOrder kOrder>
HWY_NOINLINE void ragged_panel(const BlockProduct& p, const float* b, float* c, int64_t width) {
  HWY_ALIGN float buffer[kRows * kCols];
  const int vectors = static_cast<int>((width + kLanes - 1) / kLanes);
  BlockProduct part = p;
  for (int64_t i = 0; i < p.m; i += kRows) {
    part.m = std::min<int64_t>(kRows, p.m - i);
    for (int64_t r = 0; r < part.m; ++r) {
      float* to = buffer + r * kCols;
      for (int64_t j = 0; j < kCols; ++j) {
        to[j] = p.accumulate && j < width ? c[(i + r) * p.ldc + j] : 0.0f;
      }
    }
    panel_of<kOrder>(vectors, part, b, buffer, kCols);
    for (int64_t r = 0; r < part.m; ++r) {
      std::copy_n(buffer + r * kCols, width, c + (i + r) * p.ldc);
    }
    part.a += p.a_tile_step;
  }
}

template <AOrder kOrder>
HWY_INLINE void multiply_as(const BlockProduct& p) {
  const float* b = p.b;
  for (int64_t j = 0; j < p.n; j += kCols, b += kCols * p.k) {
    const int64_t width = std::min<int64_t>(kCols, p.n - j);
    if (width % kLanes == 0) {
      panel_of<kOrder>(static_cast<int>(width / kLanes), p, b, p.c + j, p.ldc);
    } else {
      ragged_panel<kOrder>(p, b, p.c + j, width);
    }
  }
}

void multiply(const BlockProduct& p) {
  p.a_order == AOrder::rows ? multiply_as<AOrder::rows>(p) : multiply_as<AOrder::columns>(p);
}

// Rows are walked in groups so that both sides stay sequential: one group of a panel is a
// contiguous piece of dst, and the panels of a group read the same pages of B.
void pack_b_from_kn(const float* b, int64_t ldb, int64_t k, int64_t n, float* dst) {
  constexpr int64_t kGroup = 8;
  const D d;
  const int64_t full = n / kCols * kCols;
  for (int64_t i0 = 0; i0 < k; i0 += kGroup, b += kGroup * ldb, dst += kGroup * kCols) {
    const int64_t rows = std::min(kGroup, k - i0);
    for (int64_t j = 0; j < full; j += kCols) {
      float* to = dst + j * k;
      for (int64_t i = 0; i < rows; ++i) {
        const float* from = b + i * ldb + j;
        hwy::Prefetch(from + kGroup * ldb);
        MGT_UNROLL for (int v = 0; v < kCols; v += kLanes) {
          hn::Store(hn::LoadU(d, from + v), d, to + i * kCols + v);
        }
      }
    }
    for (int64_t i = 0; full < n && i < rows; ++i) {
      float* to = dst + full * k + i * kCols;
      std::fill(std::copy_n(b + i * ldb + full, n - full, to), to + kCols, 0.0f);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Lane block q of the result is 4 floats of row 4 * q: one register then holds 4 k of each.
HWY_INLINE V load_blocks(const float* b, int64_t ldb) {
  const hn::FixedTag<float, 4> d4;
#if HWY_MAX_BYTES == 64
  const hn::FixedTag<float, 8> d8;
  const auto low = hn::Combine(d8, hn::LoadU(d4, b + 4 * ldb), hn::LoadU(d4, b));
  const auto high = hn::Combine(d8, hn::LoadU(d4, b + 12 * ldb), hn::LoadU(d4, b + 8 * ldb));
  return hn::Combine(D(), high, low);
#elif HWY_MAX_BYTES == 32
  return hn::Combine(D(), hn::LoadU(d4, b + 4 * ldb), hn::LoadU(d4, b));
#else
  (void)ldb;
  return hn::LoadU(d4, b);
#endif
}

// Columns 0..3 of dst rows: dst[q][v] = b[v * ldb + q] for 4 k (q) and kLanes columns (v).
HWY_INLINE void transpose_4k(const float* b, int64_t ldb, float* dst) {
  const D d;
  const hn::Repartition<double, D> dd;
  const V r0 = load_blocks(b, ldb), r1 = load_blocks(b + ldb, ldb);
  const V r2 = load_blocks(b + 2 * ldb, ldb), r3 = load_blocks(b + 3 * ldb, ldb);
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1));
  const auto upp01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto upp23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, low01, low23)), d, dst);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, low01, low23)), d, dst + kCols);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dd, upp01, upp23)), d, dst + 2 * kCols);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dd, upp01, upp23)), d, dst + 3 * kCols);
}
#endif

void pack_b_from_nk(const float* b, int64_t ldb, int64_t k, int64_t n, float* dst) {
  for (; n > 0; n -= kCols, b += kCols * ldb, dst += kCols * k) {
    const int64_t width = std::min<int64_t>(kCols, n);
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const int64_t full = width / kLanes * kLanes;
    // 16 k of kLanes rows at a time: one cache line of each row, and few enough rows that a
    // leading dimension of 4096 bytes does not push them out of a cache set before they are used.
    for (; i + 4 <= k; i += 16) {
      const int64_t depth = std::min<int64_t>(16, (k - i) & ~int64_t{3});
      for (int64_t j = 0; j < full; j += kLanes) {
        for (int64_t r = j; r < j + kLanes; ++r) hwy::Prefetch(b + r * ldb + i + kAhead);
        for (int64_t q = i; q < i + depth; q += 4) {
          transpose_4k(b + j * ldb + q, ldb, dst + q * kCols + j);
        }
      }
      for (int64_t j = full; j < kCols; ++j) {
        for (int64_t q = i; q < i + depth; ++q) {
          dst[q * kCols + j] = j < width ? b[j * ldb + q] : 0.0f;
        }
      }
      if (depth < 16) {
        i += depth;
        break;
      }
    }
#endif
    for (; i < k; ++i) {
      for (int64_t j = 0; j < kCols; ++j) dst[i * kCols + j] = j < width ? b[j * ldb + i] : 0.0f;
    }
  }
}

void pack_a_from_km(const float* a, int64_t lda, int64_t m, int64_t k, float* dst) {
  constexpr int64_t kGroup = 8;
  for (int64_t q0 = 0; q0 < k; q0 += kGroup, a += kGroup * lda, dst += kGroup * kRows) {
    const int64_t depth = std::min(kGroup, k - q0);
    for (int64_t q = 0; q < depth; ++q) {
      for (int64_t i = 0; i < m; i += 16) hwy::Prefetch(a + (kGroup + q) * lda + i);
    }
    for (int64_t i = 0; i < m; i += kRows) {
      float* to = dst + i * k;
      const int64_t rows = std::min<int64_t>(kRows, m - i);
      if (rows == kRows) {
        for (int64_t q = 0; q < depth; ++q) {
          std::memcpy(to + q * kRows, a + q * lda + i, sizeof(float) * kRows);
        }
      } else {
        for (int64_t q = 0; q < depth; ++q) std::copy_n(a + q * lda + i, rows, to + q * kRows);
      }
    }
  }
}

const GemmKernels& table() {
  static constexpr GemmKernels kTable = {kRows,          kCols,          multiply,
                                         pack_b_from_kn, pack_b_from_nk, pack_a_from_km};
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(table);

const GemmKernels& gemm_kernels() { return HWY_DYNAMIC_DISPATCH(table)(); }

}  // namespace megatron::cpu
#endif
