// The scanner against cases by hand and against PCRE2 running GPT-2's own expression.
#include "plugins/tokenizers/gpt2_bpe/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gmock/gmock.h>
#include <pcre2.h>

#include "unit/data/support.hpp"

namespace megatron::gpt2 {
namespace {

using Pieces = std::vector<std::string>;

Pieces scan(std::string_view text) {
  Pieces out;
  while (!text.empty()) {
    out.emplace_back(text.substr(0, piece_length(text)));
    text.remove_prefix(out.back().size());
  }
  return out;
}

TEST(Pretokenizer, ByHand) {
  const std::pair<std::string, Pieces> kCases[] = {
      {"Hello world", {"Hello", " world"}},
      {"we'll can't I'M 're", {"we", "'ll", " can", "'t", " I", "'", "M", " '", "re"}},
      {"'re''s", {"'re", "''", "s"}},
      {"it's 2x10, ok!", {"it", "'s", " 2", "x", "10", ",", " ok", "!"}},
      {"a  b", {"a", " ", " b"}},
      {"a \n b", {"a", " \n", " b"}},
      {"a\n\nb", {"a", "\n", "\n", "b"}},
      {"a   ", {"a", "   "}},
      {" ", {" "}},
      {"\t\tx", {"\t", "\t", "x"}},
      {" \xC2\xA0x", {" ", "\xC2\xA0", "x"}},  // a no-break space is a space, but not ' '
      {"x\xE2\x80\x83\xE2\x80\x83y", {"x", "\xE2\x80\x83", "\xE2\x80\x83", "y"}},  // em spaces
      {"\xC2\xBD\xE2\x85\xA3 \xD9\xA3", {"\xC2\xBD\xE2\x85\xA3", " \xD9\xA3"}},  // ½Ⅳ, Arabic 3
      {"a\xCC\x81", {"a", "\xCC\x81"}},  // a combining mark is not a letter
      {std::string("a\0b", 3), {"a", std::string("\0", 1), "b"}},
  };
  for (const auto& [text, pieces] : kCases) EXPECT_EQ(scan(text), pieces) << text;
}

TEST(Pretokenizer, InvalidUtf8IsSymbols) {
  const std::pair<std::string, Pieces> kCases[] = {
      {"a\xFFz", {"a", "\xFF", "z"}},
      {" \x80\x80", {" \x80\x80"}},
      {"\xC0\xAFz", {"\xC0\xAF", "z"}},                  // overlong '/'
      {"\xED\xA0\x80z", {"\xED\xA0\x80", "z"}},          // a surrogate
      {"\xF4\x90\x80\x80z", {"\xF4\x90\x80\x80", "z"}},  // above U+10FFFF
      {"\xE4\xBD", {"\xE4\xBD"}},                        // cut short
      {"\xE4z", {"\xE4", "z"}},
  };
  for (const auto& [text, pieces] : kCases) EXPECT_EQ(scan(text), pieces);
}

std::string utf8(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

class Oracle {
 public:
  explicit Oracle(const char* pattern) {
    int error = 0;
    size_t at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
    EXPECT_NE(code_, nullptr);
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  ~Oracle() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Pieces pieces(const std::string& text) const {
    Pieces out;
    for (size_t at = 0; at < text.size();) {
      const int n = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                0, match_, nullptr);
      if (n < 1) break;
      const auto* span = pcre2_get_ovector_pointer(match_);
      out.push_back(text.substr(span[0], span[1] - span[0]));
      at = span[1];
    }
    return out;
  }

 private:
  pcre2_code* code_;
  pcre2_match_data* match_;
};

// \s of PCRE2 is not White_Space (it has U+180E), so the class is written out.
#define SPACES \
  R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
const char* const kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES
                          "\\p{L}\\p{N}]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+";

TEST(Pretokenizer, EveryCodePointIsClassifiedAsByPcre2) {
  const Oracle oracle(kGpt2), unassigned("\\p{Cn}");
  int different = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const auto around = text("a", utf8(c), "1", utf8(c), "! ", utf8(c));
    if (scan(around) == oracle.pieces(around)) continue;
    // The two libraries may know different versions of Unicode.
    if (unassigned.pieces(utf8(c)).empty()) ADD_FAILURE() << "U+" << std::hex << c;
    if (++different > 20000) break;
  }
  EXPECT_LT(different, 20000);
}

TEST(Pretokenizer, RandomTextIsCutAsByPcre2) {
  const Oracle oracle(kGpt2);
  const std::string alphabet[] = {
      " ",      " ",      "  ",     "\n",           "\t",  "\r\n", "'",  "'s", "'ll",
      "'re",    "s",      "l",      "Re",           "abc", "7",    "42", "!",  "...",
      "-",      "é",      "ß",      "中",           "文",  "٣",    "½",  "🚀",  "\u00a0",
      "\u2003", "\u0301", "\u200d", "<|endoftext|>"};
  uint64_t state = 20240601;
  const auto draw = [&](uint64_t n) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t k = 1 + draw(12); k-- > 0;) text += alphabet[draw(std::size(alphabet))];
    ASSERT_EQ(scan(text), oracle.pieces(text)) << "round " << round << ": " << text;
  }
}

}  // namespace
}  // namespace megatron::gpt2
