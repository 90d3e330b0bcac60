// Cuts text where GPT-2's regular expression does:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// by a hand-written scanner: one table look-up a character, no backtracking. Bytes that are not
// valid UTF-8 count as single symbols (neither letter, number nor space).
#pragma once

#include <string_view>

namespace megatron::gpt2 {

// [thread-safe] The length of the first piece; `text` is not empty. The pieces of a text, one after
// the other, are the text.
size_t piece_length(std::string_view text);

}  // namespace megatron::gpt2
