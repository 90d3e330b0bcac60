// A token is a byte; id 256 ends a document.
#pragma once

#include "megatron/tokenizer.hpp"

namespace megatron::byte {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kEod = 256;

  ByteTokenizer(const Host&, const Config&) {}

  int64_t vocab_size() const override { return kEod + 1; }
  SpecialTokens special_tokens() const override { return {.eod = kEod}; }
  void encode(std::string_view text, std::vector<int32_t>& ids) const override;
  void decode(std::span<const int32_t> ids,
              std::string& text) const override;  // throws StatusError
};

}  // namespace megatron::byte
