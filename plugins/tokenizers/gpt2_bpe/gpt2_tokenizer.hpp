// GPT-2's byte-level BPE: any bytes in, the same bytes out.
#pragma once

#include <cstdint>

#include "megatron/tokenizer.hpp"
#include "vocabulary.hpp"

namespace megatron::gpt2 {

inline constexpr Option kOptions[] = {
    option("vocab_file", MGT_OPTION_PATH, "", "the tokenizer's vocab.json").required(),
    option("merge_file", MGT_OPTION_PATH, "", "the tokenizer's merges.txt").required(),
    option("eod_token", MGT_OPTION_STRING, "\"<|endoftext|>\"",
           "the vocabulary's end-of-document token"),
    option("allow_special_tokens", MGT_OPTION_BOOL, "false",
           "text that spells eod_token becomes that id; false treats it as any other text, so that "
           "no document can forge the end of another"),
};

class Gpt2Tokenizer : public Tokenizer {
 public:
  Gpt2Tokenizer(const Host& host, const Config& config);  // throws StatusError

  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.bytes.size()); }
  SpecialTokens special_tokens() const override;
  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  void decode(std::span<const int32_t> ids, std::string& text) const override;

 private:
  void encode_plain(std::string_view text, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  std::string special_;  // empty: no special text
  uint64_t serial_;      // tells the thread's word cache whose words it holds
};

}  // namespace megatron::gpt2
