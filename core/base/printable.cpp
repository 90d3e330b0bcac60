#include "base/printable.hpp"

#include <algorithm>

namespace megatron {
namespace {

// Bytes of the control character at i; 0: it is none. C1 controls, U+0080 to U+009F, have two.
size_t control_size(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(i) < 0x20 || byte(i) == 0x7f) return 1;
  const bool c1 =
      byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
  return c1 ? 2 : 0;
}

std::string escaped(std::string_view text, std::string_view keep) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t size = control_size(text, i);
    if (size == 0 || keep.find(c) != std::string_view::npos) {
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += c == '\n' ? "\\n" : "\\t";
    } else {
      for (const char part : text.substr(i, size)) {
        const auto byte = static_cast<unsigned char>(part);
        out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
      }
    }
    i += std::max<size_t>(size, 1);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, ""); }
std::string printable_lines(std::string_view text) { return escaped(text, "\n\t"); }

}  // namespace megatron
