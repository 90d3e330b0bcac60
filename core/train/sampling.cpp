#include "train/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "megatron/philox.hpp"

namespace megatron::train {

int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                     int64_t position) {
  if (options.temperature == 0 || options.top_k == 1) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  const auto highest = static_cast<double>(logits[static_cast<size_t>(order[0])]);
  std::vector<double> weights;
  for (const int32_t id : order) {
    weights.push_back(std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - highest) /
                               options.temperature));
  }
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p > 0) {
    // The fewest tokens whose probability reaches top_p; at least one.
    double kept = 0;
    size_t n = 0;
    while (n < weights.size() && (n == 0 || kept < options.top_p * total)) kept += weights[n++];
    weights.resize(n);
    total = kept;
  }
  const auto stream = RandomStream::make(options.seed, site_of("sampling"));
  double left = static_cast<double>(stream.uniform(static_cast<uint64_t>(position))) * total;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (left < weights[i]) return order[i];
    left -= weights[i];
  }
  return order[weights.size() - 1];
}

}  // namespace megatron::train
