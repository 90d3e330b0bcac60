#include "split.hpp"

#include <charconv>
#include <cmath>

namespace megatron::gpt {
namespace {

Status bad_split(std::string_view value, std::string_view cause) {
  return invalid_argument(text("split = \"", value, "\" is not a split"), cause,
                          "write the weights of train, valid and test, e.g. split = \"969,30,1\"");
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

Result<SplitWeights> parse_split(std::string_view value) {
  SplitWeights weights{};
  size_t count = 0;
  for (std::string_view rest = value;;) {
    const auto comma = rest.find(',');
    const auto part = trim(rest.substr(0, comma));
    if (count == weights.size()) return bad_split(value, "it has more than three weights");
    double w = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), w);
    if (part.empty() || error != std::errc() || end != part.data() + part.size())
      return bad_split(value, text("'", part, "' is not a number"));
    if (!(w >= 0) || std::isinf(w))
      return bad_split(value, text("weight ", part, " is not a finite number of at least 0"));
    weights[count++] = w;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const double sum = weights[0] + weights[1] + weights[2];
  if (!(sum > 0) || std::isinf(sum)) return bad_split(value, text("its weights sum to ", sum));
  for (auto& w : weights) w /= sum;
  return weights;
}

Result<int> split_number(std::string_view name) {
  constexpr std::string_view kNames[] = {"train", "valid", "test"};
  for (int i = 0; i < 3; ++i)
    if (kNames[i] == name) return i;
  return invalid_argument(text("dataset 'megatron_gpt' has no split '", name, "'"),
                          "its splits are train, valid and test", "ask for one of these");
}

SequenceRange split_range(const SplitWeights& weights, int split, int64_t total) {
  double low = 0;  // running sums in this order: the last bit decides at the borders
  for (int i = 0; i < split; ++i) low += weights[static_cast<size_t>(i)];
  const double high = low + weights[static_cast<size_t>(split)];
  // nearbyint rounds halves to even in the default mode, as Python's round().
  const auto n = static_cast<double>(total);
  const auto first = static_cast<int64_t>(std::nearbyint(low * n));
  const auto end = static_cast<int64_t>(std::nearbyint(high * n));
  return {first, end - first};
}

}  // namespace megatron::gpt
