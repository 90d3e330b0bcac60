// Dropout's factors for a run of draws: sdk/include/megatron/philox.hpp, many blocks at a time.
#pragma once

#include <cstdint>

#include "megatron/philox.hpp"

namespace megatron::cpu {

// What a draw is compared with: u < p for u = k·2^-24 means k < ceil(p·2^24).
struct DropoutRate {
  uint32_t threshold;
  float keep;  // 1/(1−p)

  static DropoutRate of(double p);
};

// out[i] = 0 or rate.keep, by draw first + i of `sample`.
void dropout_factors(const RandomStream& stream, uint64_t sample, uint64_t first, int64_t n,
                     DropoutRate rate, float* out);

}  // namespace megatron::cpu
