#include "base/printable.hpp"

#include <gtest/gtest.h>

namespace megatron {
namespace {

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("a b\u00e9\\"), "a b\u00e9\\");
  EXPECT_EQ(printable("\x1b[31m\n\t\r\x7f"), R"(\x1b[31m\n\t\x0d\x7f)");
  EXPECT_EQ(printable(std::string_view("\0", 1)), R"(\x00)");
  EXPECT_EQ(printable("\u009b2J\u00a0"),
            "\\xc2\\x9b"
            "2J\u00a0");  // CSI as one code point
  EXPECT_EQ(printable_lines("a\n\tb\x1b\n"), "a\n\tb\\x1b\n");
}

}  // namespace
}  // namespace megatron
