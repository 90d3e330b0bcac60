// Which sequences belong to the training, validation and test split.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "megatron/status.hpp"

namespace megatron::gpt {

using SplitWeights = std::array<double, 3>;  // of train, valid, test; they sum to 1

struct SequenceRange {
  int64_t first = 0;
  int64_t count = 0;
};

// "969,30,1": up to three numbers, missing ones are 0, normalised to their sum.
Result<SplitWeights> parse_split(std::string_view text);

// 0, 1, 2 for "train", "valid", "test".
Result<int> split_number(std::string_view name);

// The split's sequences out of `total`, rounded as Python rounds. May be empty.
SequenceRange split_range(const SplitWeights& weights, int split, int64_t total);

}  // namespace megatron::gpt
