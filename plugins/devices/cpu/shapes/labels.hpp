// The labels column of docs/ops.md, checked before any implementation looks at a description.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "shapes/operands.hpp"

namespace megatron::cpu {

// "Mk,vk,M->M,M": a small letter is one dimension, a capital one any number of them. Where a term
// has two groups, the attribute `group_attr` gives the rank of `group`.
struct LabelPattern {
  std::string_view pattern = {};  // empty: the op checks its shapes itself
  char group = 0;
  std::string_view group_attr = {};
};

// Throws StatusError naming the op unless the operands' sizes fit the pattern.
inline void check_labels(const LabelPattern& labels, const KernelDesc& desc) {
  struct Term {
    std::string_view letters;
    const TensorDesc* tensor;
  };
  if (labels.pattern.empty()) return;
  const auto cause = text("the operands do not fit ", labels.pattern);
  const auto split = [](std::string_view list) {
    std::vector<std::string_view> out;
    for (size_t begin = 0;;) {
      const size_t comma = std::min(list.find(',', begin), list.size());
      out.push_back(list.substr(begin, comma - begin));
      if (comma == list.size()) return out;
      begin = comma + 1;
    }
  };
  const size_t arrow = labels.pattern.find("->");
  auto in = split(labels.pattern.substr(0, arrow));
  const auto out = split(labels.pattern.substr(arrow + 2));
  // A number may come as a scalar instead of a tensor of rank 0.
  const uint64_t scalars = desc.scalar_count - (desc.accumulate_mask != 0 ? 1 : 0);
  if (scalars > 0) std::erase(in, std::string_view());
  expect_operands(desc, in.size(), out.size());
  std::vector<Term> terms;
  for (size_t i = 0; i < in.size(); ++i) terms.push_back({in[i], &desc.inputs[i]});
  for (size_t o = 0; o < out.size(); ++o) terms.push_back({out[o], &desc.outputs[o]});

  // Ranks of the groups: given, or what a term's other letters leave over.
  std::array<std::optional<size_t>, 128> rank;
  for (char c = 'a'; c <= 'z'; ++c) rank[static_cast<size_t>(c)] = 1;
  if (labels.group != 0) {
    const int64_t given = desc.integer(labels.group_attr, 0);
    expect(given >= 0, desc, text("'", labels.group_attr, "' = ", given, " is negative"));
    rank[static_cast<size_t>(labels.group)] = static_cast<size_t>(given);
  }
  const auto rank_of = [&](char c) -> auto& { return rank[static_cast<size_t>(c)]; };
  for (size_t round = 0; round < terms.size(); ++round) {
    for (const Term& t : terms) {
      size_t known = 0;
      char unknown = 0;
      int unknowns = 0;
      for (const char c : t.letters) {
        if (rank_of(c).has_value()) {
          known += *rank_of(c);
        } else {
          unknown = c;
          ++unknowns;
        }
      }
      if (unknowns != 1) continue;
      expect(t.tensor->rank() >= known, desc, cause);
      rank_of(unknown) = t.tensor->rank() - known;
    }
  }
  // Every letter has the same sizes wherever it stands.
  std::array<std::optional<std::vector<int64_t>>, 128> sizes;
  for (const Term& t : terms) {
    size_t at = 0;
    for (const char c : t.letters) {
      const size_t end = at + rank_of(c).value_or(0);
      expect(end <= t.tensor->rank(), desc, cause);
      const auto dims = t.tensor->dims.begin();
      std::vector<int64_t> here(dims + static_cast<std::ptrdiff_t>(at),
                                dims + static_cast<std::ptrdiff_t>(end));
      auto& seen = sizes[static_cast<size_t>(c)];
      expect(!seen.has_value() || *seen == here, desc, text(cause, ": '", c, "' has two sizes"));
      seen = std::move(here);
      at = end;
    }
    expect(at == t.tensor->rank(), desc, cause);
  }
}

}  // namespace megatron::cpu
