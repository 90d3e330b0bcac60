// GPT-2 writes the bytes of its tokens with printable characters: 188 bytes stand for themselves
// (as Latin-1), the other 68 for U+0100 onwards. Files use these letters; the tokenizer uses bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megatron::gpt2 {

constexpr std::array<uint16_t, 256> make_letters() {
  std::array<uint16_t, 256> letters{};
  uint16_t next = 0x100;
  for (uint16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    letters[b] = printable ? b : next++;
  }
  return letters;
}
inline constexpr std::array<uint16_t, 256> kLetterOfByte = make_letters();

// The bytes that a token of the files stands for; nullopt when a character is not of the alphabet.
inline std::optional<std::string> bytes_of_letters(std::string_view token) {
  static constexpr auto kByteOfLetter = [] {
    std::array<int16_t, 0x144> bytes{};
    for (auto& b : bytes) b = -1;
    for (int16_t b = 0; b < 256; ++b) bytes[kLetterOfByte[static_cast<size_t>(b)]] = b;
    return bytes;
  }();
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    uint32_t letter = static_cast<unsigned char>(token[i]);
    if (letter >= 0x80) {  // all letters have one or two bytes in UTF-8
      if (letter < 0xC2 || letter > 0xDF || i + 1 == token.size()) return std::nullopt;
      letter = (letter & 0x1F) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3F);
    }
    if (letter >= kByteOfLetter.size() || kByteOfLetter[letter] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kByteOfLetter[letter]));
  }
  return out;
}

}  // namespace megatron::gpt2
