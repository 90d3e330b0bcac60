#include "graph/labels.hpp"

#include <algorithm>
#include <cctype>

namespace megatron::graph {
namespace {

bool is_group(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

std::vector<std::string_view> split(std::string_view s, char separator) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || s[i] == separator) {
      out.push_back(s.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return out;
}

}  // namespace

Result<Labels> match_labels(std::string_view pattern, std::span<const int> input_ranks,
                            std::map<char, int> group_ranks) {
  for (const auto& [group, rank] : group_ranks) {
    if (rank < 0) return invalid_argument(text("group '", group, "' cannot have the rank ", rank));
  }
  const auto arrow = pattern.find("->");
  MGT_CHECK(arrow != std::string_view::npos, pattern);
  const auto inputs = split(pattern.substr(0, arrow), ',');
  const auto outputs = split(pattern.substr(arrow + 2), ',');
  // A scalar may stand where the pattern has an operand without labels; elsewhere it takes no part.
  const bool aligned = input_ranks.size() == inputs.size();
  std::vector<int> ranks;
  for (const int r : input_ranks) {
    if (r >= 0 || aligned) ranks.push_back(std::max(r, 0));
  }
  if (ranks.size() != inputs.size()) {
    return invalid_argument(text("takes ", inputs.size(), " tensors, got ", ranks.size()));
  }

  // Each operand with one open group fixes that group's rank; repeat until nothing is open.
  for (size_t pass = 0; pass <= inputs.size(); ++pass) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      int known = 0;
      char open = 0;
      int open_count = 0;
      for (const char c : inputs[i]) {
        if (!is_group(c)) {
          ++known;
        } else if (const auto it = group_ranks.find(c); it != group_ranks.end()) {
          known += it->second;
        } else {
          open = c;
          ++open_count;
        }
      }
      if (open_count == 1 && ranks[i] >= known) group_ranks[open] = ranks[i] - known;
      if (open_count == 0 && ranks[i] != known) {
        return invalid_argument(text("operand ", i, " has rank ", ranks[i], " where the labels '",
                                     inputs[i], "' of ", pattern, " ask for ", known));
      }
    }
  }

  Labels labels;
  std::map<std::pair<char, int>, Label> ids;
  const auto expand = [&](std::string_view operand, std::vector<Label>& out) -> Status {
    for (const char c : operand) {
      int rank = 1;
      if (is_group(c)) {
        const auto it = group_ranks.find(c);
        if (it == group_ranks.end()) {
          return invalid_argument(
              text("rank of group '", c, "' of ", pattern, " is not determined"));
        }
        rank = it->second;
      }
      for (int i = 0; i < rank; ++i) {
        const auto [it, inserted] = ids.try_emplace({c, i}, labels.count());
        if (inserted) labels.letters.push_back(c);
        out.push_back(it->second);
      }
    }
    return {};
  };
  size_t next = 0;
  for (const int r : input_ranks) {
    auto& out = labels.inputs.emplace_back();
    if (r >= 0 || aligned) MGT_RETURN_IF_ERROR(expand(inputs[next++], out));
  }
  for (const auto operand : outputs)
    MGT_RETURN_IF_ERROR(expand(operand, labels.outputs.emplace_back()));
  return labels;
}

Labels elementwise_labels(std::span<const int> input_ranks, size_t outputs) {
  const int rank = std::max(0, *std::max_element(input_ranks.begin(), input_ranks.end()));
  Labels labels;
  labels.letters.assign(static_cast<size_t>(rank), 'M');
  for (const int r : input_ranks) {
    auto& out = labels.inputs.emplace_back();
    for (int i = rank - std::max(r, 0); i < rank; ++i) out.push_back(i);
  }
  for (size_t o = 0; o < outputs; ++o) {
    auto& out = labels.outputs.emplace_back();
    for (int i = 0; i < rank; ++i) out.push_back(i);
  }
  return labels;
}

}  // namespace megatron::graph
