// Labels: which dimensions of an op's operands and results are the same one, einsum style.
// A small letter is one dimension, a capital letter a group of any rank: "MK,NK->MN".
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"

namespace megatron::graph {

using Label = int;

// One label per dimension, per tensor operand and result. Scalars have none.
struct Labels {
  std::vector<std::vector<Label>> inputs;
  std::vector<std::vector<Label>> outputs;
  std::vector<char> letters;  // the letter of each label, for rules about single letters

  int count() const { return static_cast<int>(letters.size()); }
};

// Matches the pattern against the operands' ranks. `group_ranks` gives the ranks of groups that the
// operands leave open ({'K', 1}); `input_ranks` holds -1 for scalars, which take no part.
Result<Labels> match_labels(std::string_view pattern, std::span<const int> input_ranks,
                            std::map<char, int> group_ranks);

// Element-wise: operands align at their last dimensions.
Labels elementwise_labels(std::span<const int> input_ranks, size_t outputs);

}  // namespace megatron::graph
