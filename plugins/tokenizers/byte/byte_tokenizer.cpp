#include "byte_tokenizer.hpp"

namespace megatron::byte {

void ByteTokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  ids.insert(ids.end(), bytes, bytes + text.size());
}

void ByteTokenizer::decode(std::span<const int32_t> ids, std::string& out) const {
  for (const auto id : ids) {
    if (id == kEod) continue;  // the border between documents has no bytes
    if (id < 0 || id > kEod) {
      throw StatusError(invalid_argument(text("tokenizer 'byte' cannot decode id ", id),
                                         "its ids are 0 to 256",
                                         "decode with the tokenizer that made it"));
    }
    out.push_back(static_cast<char>(id));
  }
}

}  // namespace megatron::byte
