// Byte-pair merging of one piece of text (Sennrich et al. 2016; GPT-2's order: the pair of the
// lowest rank first, the leftmost of equal ones).
#pragma once

#include <cstdint>
#include <string_view>

#include "vocabulary.hpp"

namespace megatron::gpt2 {

// [thread-safe] Writes the ids of `piece` to `out`, which has room for piece.size() of them, and
// returns how many there are. Quadratic scan for short pieces, O(n log n) for long ones.
size_t merge_piece(const Vocabulary& vocabulary, std::string_view piece, int32_t* out);

}  // namespace megatron::gpt2
