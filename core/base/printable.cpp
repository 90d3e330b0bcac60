#include "base/printable.hpp"

namespace megatron {
namespace {

bool is_control(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  // C1 controls are U+0080 to U+009F: two bytes of UTF-8, of which hiding the first is enough.
  if (byte(i) == 0xc2) return i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
  return byte(i) < 0x20 || byte(i) == 0x7f;
}

std::string escaped(std::string_view text, std::string_view keep) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_control(text, i) || keep.find(c) != std::string_view::npos) {
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, ""); }
std::string printable_lines(std::string_view text) { return escaped(text, "\n\t"); }

}  // namespace megatron
