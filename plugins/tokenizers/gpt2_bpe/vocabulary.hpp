// vocab.json and merges.txt of a GPT-2 style tokenizer, in the form that encoding needs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "megatron/status.hpp"
#include "pair_table.hpp"

namespace megatron::gpt2 {

struct Vocabulary {
  std::vector<std::string> bytes;         // of each id
  std::array<int32_t, 256> id_of_byte{};  // what merging starts from
  PairTable merges;
  int32_t eod = -1;
};

// Errors name the file, and the line where there is one.
Result<Vocabulary> load_vocabulary(const std::string& vocab_file, const std::string& merge_file,
                                   const std::string& eod_token);

}  // namespace megatron::gpt2
