// Choosing the next token from logits: greedy, or drawn after temperature, top-k and top-p
// (nucleus; Holtzman et al. 2019, arXiv:1904.09751).
#pragma once

#include <cstdint>
#include <span>

namespace megatron::train {

struct SamplingOptions {
  double temperature = 1.0;  // 0 = greedy
  int64_t top_k = 0;         // 0 = all; 1 = greedy
  double top_p = 0.0;        // 0 = all
  uint64_t seed = 1234;
};

// `position` selects the random number: the same seed and position draw alike. Ties go to the lower
// id.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                     int64_t position);

}  // namespace megatron::train
