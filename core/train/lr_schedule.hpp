// Learning rate and weight decay over a run, as Megatron's OptimizerParamScheduler computes them.
// Progress is counted in samples; the update of iteration i uses what was consumed before it, so
// the first one uses lr(0).
#pragma once

#include <cstdint>
#include <string>

#include "megatron/status.hpp"

namespace megatron::train {

enum class LrDecayStyle : uint8_t { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle : uint8_t { linear, cosine, exponential, minus_sqrt };
enum class WeightDecayStyle : uint8_t { constant, linear, cosine };

// Their names in a manifest, in the same order.
inline constexpr mgt_str kLrDecayStyles[] = {to_abi("constant"), to_abi("linear"), to_abi("cosine"),
                                             to_abi("inverse-square-root"), to_abi("WSD")};
inline constexpr mgt_str kWsdDecayStyles[] = {to_abi("linear"), to_abi("cosine"),
                                              to_abi("exponential"), to_abi("minus_sqrt")};
inline constexpr mgt_str kWeightDecayStyles[] = {to_abi("constant"), to_abi("linear"),
                                                 to_abi("cosine")};

Result<LrDecayStyle> parse_lr_decay_style(const std::string& name);
Result<WsdDecayStyle> parse_wsd_decay_style(const std::string& name);
Result<WeightDecayStyle> parse_weight_decay_style(const std::string& name);

struct LrSchedule {
  LrDecayStyle style = LrDecayStyle::linear;
  WsdDecayStyle wsd_style = WsdDecayStyle::exponential;  // Hägele et al. 2024, arXiv:2405.18392
  double init = 0;                                       // at sample 0 of the warm-up
  double max = 0;
  double min = 0;
  int64_t warmup_samples = 0;
  int64_t decay_samples = 0;      // from here on: min
  int64_t wsd_decay_samples = 0;  // length of the last phase of wsd

  double at(int64_t samples) const;
};

struct WeightDecaySchedule {
  WeightDecayStyle style = WeightDecayStyle::constant;
  double start = 0;
  double end = 0;
  int64_t samples = 0;  // length of the increase

  double at(int64_t samples) const;
};

}  // namespace megatron::train
