// Sums over rows, over everything, and of squares. Compiled once per instruction set.
#pragma once

#include <cstdint>

namespace megatron::cpu {

struct SumKernels {
  // out[c] = Σ_rows x[row·stride + c], in single precision: meant for at most some hundred rows.
  void (*column_sums)(const float* x, int64_t stride, int64_t rows, int64_t columns, float* out);
  // Added up in double.
  double (*sum)(const float* x, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
  // y += x
  void (*add)(const float* x, float* y, int64_t n);
};

const SumKernels& sum_kernels();

}  // namespace megatron::cpu
