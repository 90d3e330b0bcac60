#include "train/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace megatron::train {
namespace {

template <class Style>
Result<Style> parse(std::span<const mgt_str> names, std::string_view name, std::string_view what) {
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (from_abi(names[i]) == name) return static_cast<Style>(i);
    known += text(i == 0 ? "" : ", ", from_abi(names[i]));
  }
  return invalid_argument(text("unknown ", what, " '", name, "'"), text("it is none of ", known),
                          "choose one of them");
}

double half_cosine(double x) { return 0.5 * (std::cos(std::numbers::pi * x) + 1.0); }

double wsd_coefficient(WsdDecayStyle style, double q) {
  switch (style) {
    case WsdDecayStyle::linear:
      return 1.0 - q;
    case WsdDecayStyle::cosine:
      return half_cosine(q);
    case WsdDecayStyle::exponential:
      return 2.0 * std::pow(0.5, q) - 1.0;
    case WsdDecayStyle::minus_sqrt:
      return 1.0 - std::sqrt(q);
  }
  return 0;
}

}  // namespace

Result<LrDecayStyle> parse_lr_decay_style(const std::string& name) {
  return parse<LrDecayStyle>(kLrDecayStyles, name, "lr_decay_style");
}
Result<WsdDecayStyle> parse_wsd_decay_style(const std::string& name) {
  return parse<WsdDecayStyle>(kWsdDecayStyles, name, "lr_wsd_decay_style");
}
Result<WeightDecayStyle> parse_weight_decay_style(const std::string& name) {
  return parse<WeightDecayStyle>(kWeightDecayStyles, name, "weight_decay_incr_style");
}

double LrSchedule::at(int64_t samples) const {
  const auto n = static_cast<double>(samples);
  const auto warmup = static_cast<double>(warmup_samples);
  const auto decay = static_cast<double>(decay_samples);
  if (warmup_samples > 0 && samples <= warmup_samples) return init + (max - init) * n / warmup;
  if (style == LrDecayStyle::constant) return max;
  if (samples > decay_samples) return min;
  if (style == LrDecayStyle::inverse_square_root) {
    return std::max(min, max * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  }
  const double r = (n - warmup) / (decay - warmup);
  double coefficient = 1;
  switch (style) {
    case LrDecayStyle::linear:
      coefficient = 1.0 - r;
      break;
    case LrDecayStyle::cosine:
      coefficient = half_cosine(r);
      break;
    case LrDecayStyle::wsd: {
      const int64_t start = decay_samples - wsd_decay_samples;
      if (samples > start) {
        coefficient = wsd_coefficient(
            wsd_style, (n - static_cast<double>(start)) / static_cast<double>(wsd_decay_samples));
      }
      break;
    }
    default:
      break;
  }
  return min + coefficient * (max - min);
}

double WeightDecaySchedule::at(int64_t n) const {
  if (style == WeightDecayStyle::constant || n > this->samples || this->samples == 0) return end;
  const double r = static_cast<double>(n) / static_cast<double>(this->samples);
  const double coefficient = style == WeightDecayStyle::linear ? r : half_cosine(1.0 - r);
  return start + coefficient * (end - start);
}

}  // namespace megatron::train
