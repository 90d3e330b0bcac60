#include "null_tokenizer.hpp"

#include <charconv>

namespace megatron::null {

void NullTokenizer::encode(std::string_view input, std::vector<int32_t>& ids) const {
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = input.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const auto word = input.substr(at, input.find_first_of(kSpace, at) - at);
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0) {
      throw StatusError(invalid_argument(
          text("tokenizer 'null' cannot read '", word.substr(0, 40), "'"),
          "its text is token ids: integers from 0 to 2147483647 with spaces between them",
          "choose the tokenizer of this text, or correct the text"));
    }
    ids.push_back(id);
    at = input.find_first_not_of(kSpace, at + word.size());
  }
}

void NullTokenizer::decode(std::span<const int32_t> ids, std::string& out) const {
  for (size_t i = 0; i < ids.size(); ++i) out += text(i > 0 ? " " : "", ids[i]);
}

}  // namespace megatron::null
