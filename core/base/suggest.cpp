#include "base/suggest.hpp"

#include <algorithm>
#include <tuple>

namespace megatron {
namespace {

// A part shorter than this says too little ("lr" is in "clr_max" by chance).
constexpr size_t kShortestPart = 4;

std::string folded(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return out;
}

}  // namespace

size_t edit_distance(std::string_view a_text, std::string_view b_text) {
  const std::string a = folded(a_text), b = folded(b_text);
  // Rows i-2, i-1 and i of the table d[i][j] = distance of the first i and j letters.
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::vector<std::string> near_names(std::string_view name, std::span<const std::string> candidates,
                                    size_t limit) {
  using Ranked = std::tuple<size_t, std::string>;
  std::vector<Ranked> ranked;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    const size_t longest = std::max(name.size(), candidate.size());
    // One slip in three letters; a name of one or two letters has no typo that explains it.
    if (distance <= longest / 3) {
      ranked.emplace_back(distance, candidate);
    } else if (name.size() >= kShortestPart &&
               folded(candidate).find(folded(name)) != std::string::npos) {
      ranked.emplace_back(1000 + candidate.size(), candidate);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (const auto& [rank, candidate] : ranked)
    if (names.size() < limit) names.push_back(candidate);
  return names;
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  auto names = near_names(name, candidates, 1);
  if (names.empty()) return std::nullopt;
  return std::move(names.front());
}

std::string list_names(std::span<const std::string> names, std::string_view quote) {
  if (names.empty()) return "none";
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out.append(quote).append(name).append(quote);
  }
  return out;
}

}  // namespace megatron
