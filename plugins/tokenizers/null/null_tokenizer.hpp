// The text is the ids: integers with spaces between them, as Megatron's NullTokenizer. For data
// that was tokenised elsewhere and for tests.
#pragma once

#include "megatron/tokenizer.hpp"

namespace megatron::null {

inline constexpr Option kOptions[] = {
    option("vocab_size", MGT_OPTION_INT, "",
           "number of ordinary ids; the end of document is one more, with this id")
        .required()
        .at_least(1)
        .at_most(2147483646),
};

class NullTokenizer : public Tokenizer {
 public:
  NullTokenizer(const Host&, const Config& config) : eod_(config.integer("vocab_size")) {}

  int64_t vocab_size() const override { return eod_ + 1; }
  SpecialTokens special_tokens() const override { return {.eod = eod_}; }
  // Throws StatusError for a word that is not an integer of 0 to 2^31 - 1. As in Megatron, ids are
  // not compared with the vocabulary: the files that the comparison needs exist with larger ones.
  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  void decode(std::span<const int32_t> ids, std::string& text) const override;

 private:
  int64_t eod_;
};

}  // namespace megatron::null
