// Private to the CPU device's GEMM: the table of SIMD kernels, one instance per instruction set.
// gemm_kernels.cpp compiles it once per Highway target; gemm.cpp picks one at run time and knows
// nothing about vectors. Nothing here allocates; every function may run on any thread.
#pragma once

#include <cstdint>

namespace megatron::cpu {

// How the kernel finds A(i, k) of the block that it multiplies.
enum class AOrder : uint8_t {
  rows,     // a[i * a_stride + k]: a row-major operand used in place
  columns,  // tile t = i / mr, r = i % mr: a[t * a_tile_step + k * a_stride + r]
};

// One block product: C(m, n) = alpha * A(m, k) * B(k, n) [+ C].
// Summation over k is one fused multiply-add chain per element of C, in rising k, for every tile
// shape; so the bits of C do not depend on how callers cut m and n.
struct BlockProduct {
  const float* a;
  int64_t a_stride;
  int64_t a_tile_step;  // floats between tiles of mr rows
  AOrder a_order;
  const float* b;  // packed: panel p = j / nr, r = j % nr: b[(p * K + k) * nr + r], K = k
  float* c;
  int64_t ldc;
  int64_t m, n, k;
  float alpha;
  bool accumulate;
};

struct GemmKernels {
  int mr;  // rows of the register tile
  int nr;  // columns of the register tile

  void (*multiply)(const BlockProduct&);

  // Writes packed panels dst[panel][k][nr] from n columns of B, given as b[k * ldb + j] or as
  // b[j * ldb + k]; columns past n are 0. dst is 64-byte aligned, round_up(n, nr) * k floats.
  void (*pack_b_from_kn)(const float* b, int64_t ldb, int64_t k, int64_t n, float* dst);
  void (*pack_b_from_nk)(const float* b, int64_t ldb, int64_t k, int64_t n, float* dst);

  // Copies A(m, k) given as a[k * lda + i] into AOrder::columns tiles dst[tile][k][mr].
  // dst holds round_up(m, mr) * k + mr floats; rows past m in the last tile are unspecified.
  void (*pack_a_from_km)(const float* a, int64_t lda, int64_t m, int64_t k, float* dst);
};

// Best kernels for this processor. Thread-safe; the table lives for the whole program.
const GemmKernels& gemm_kernels();

}  // namespace megatron::cpu
