// Rows of a layer norm; see reference/norm.cpp for the formulas. Compiled once per instruction set.
#pragma once

#include <cstdint>

namespace megatron::cpu {

struct NormKernels {
  // Two passes over a row that then lies in the first-level cache: the mean, then Σ(x − mean)².
  void (*forward)(const float* x, const float* gain, const float* bias, float* y, float* mean,
                  float* rstd, int64_t rows, int64_t k, float epsilon);
  void (*backward)(const float* dy, const float* x, const float* mean, const float* rstd,
                   const float* gain, float* dx, int64_t rows, int64_t k);
  // dgain[k] = Σ_rows dy·xhat and dbias[k] = Σ_rows dy; overwrites both.
  void (*parameters)(const float* dy, const float* x, const float* mean, const float* rstd,
                     float* dgain, float* dbias, int64_t rows, int64_t k);
};

const NormKernels& norm_kernels();

}  // namespace megatron::cpu
