#include "pretokenizer.hpp"

#include <utf8proc.h>

#include <array>
#include <cstdint>
#include <vector>

namespace megatron::gpt2 {
namespace {

enum Class : uint8_t { symbol, letter, number, space };

// The White_Space property, which \s means in the reference's regex engines.
bool is_space(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Class classify(int32_t c) {
  if (is_space(c)) return space;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return number;
    default:
      return symbol;
  }
}

// Two levels, equal blocks of 256 code points stored once: some 40 KiB, asked once for all of
// Unicode.
class ClassTable {
 public:
  ClassTable() {
    for (int32_t block = 0; block < kBlocks; ++block) {
      std::array<Class, 256> classes;
      for (int32_t i = 0; i < 256; ++i) classes[static_cast<size_t>(i)] = classify(block * 256 + i);
      size_t known = 0;
      while (known < blocks_.size() && blocks_[known] != classes) ++known;
      if (known == blocks_.size()) blocks_.push_back(classes);
      block_of_[static_cast<size_t>(block)] = static_cast<uint16_t>(known);
    }
  }
  Class operator[](uint32_t c) const { return blocks_[block_of_[c >> 8]][c & 0xFF]; }
  Class ascii(unsigned char c) const { return blocks_[0][c]; }  // block 0 is stored first

 private:
  static constexpr int32_t kBlocks = 0x110000 / 256;
  std::array<uint16_t, kBlocks> block_of_{};
  std::vector<std::array<Class, 256>> blocks_;
};

struct Character {
  Class kind;
  uint32_t size;  // bytes
};

constexpr bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// One character of two to four bytes; overlong forms, surrogates and stray bytes are symbols of
// size 1.
Character decode(const ClassTable& table, const unsigned char* p, const unsigned char* end) {
  const uint32_t lead = *p;
  const auto left = end - p;
  if (lead >= 0xC2 && lead <= 0xDF && left >= 2 && continues(p[1])) {
    return {table[(lead & 0x1F) << 6 | (p[1] & 0x3Fu)], 2};
  }
  if (lead >= 0xE0 && lead <= 0xEF && left >= 3 && continues(p[1]) && continues(p[2])) {
    const uint32_t c = (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    if (c >= 0x800 && (c < 0xD800 || c > 0xDFFF)) return {table[c], 3};
  }
  if (lead >= 0xF0 && lead <= 0xF4 && left >= 4 && continues(p[1]) && continues(p[2]) &&
      continues(p[3])) {
    const uint32_t c =
        (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    if (c >= 0x10000 && c <= 0x10FFFF) return {table[c], 4};
  }
  return {symbol, 1};
}

Character at(const ClassTable& table, const unsigned char* p, const unsigned char* end) {
  return *p < 0x80 ? Character{table.ascii(*p), 1} : decode(table, p, end);
}

// Behind the last character of the run of `kind` that starts at p.
const unsigned char* skip(const ClassTable& table, const unsigned char* p, const unsigned char* end,
                          Class kind) {
  while (p < end) {
    const auto c = at(table, p, end);
    if (c.kind != kind) break;
    p += c.size;
  }
  return p;
}

// Bytes of 's 't 'm 'd 're 've 'll at p, or 0.
size_t contraction(const unsigned char* p, const unsigned char* end) {
  if (*p != '\'' || end - p < 2) return 0;
  const auto a = p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (end - p < 3) return 0;
  const auto b = p[2];
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

}  // namespace

size_t piece_length(std::string_view text) {
  static const ClassTable table;
  const auto* const begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  const auto first = at(table, begin, end);
  const auto size = [&](const unsigned char* p) { return static_cast<size_t>(p - begin); };
  if (first.kind != space) {
    if (const auto n = contraction(begin, end)) return n;
    return size(skip(table, begin + first.size, end, first.kind));
  }
  if (*begin == ' ' && begin + 1 < end) {
    const auto second = at(table, begin + 1, end);
    if (second.kind != space) return size(skip(table, begin + 1 + second.size, end, second.kind));
  }
  // A run of spaces leaves its last one to the word that follows, unless it has only that one.
  const auto* last = begin;
  const auto* p = begin + first.size;
  while (p < end) {
    const auto c = at(table, p, end);
    if (c.kind != space) break;
    last = p;
    p += c.size;
  }
  return size(p == end || last == begin ? p : last);
}

}  // namespace megatron::gpt2
