#include "config/value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "config/toml.hpp"

namespace megatron::config {
namespace {

// Every value prints as TOML that reads back to the same bits.
TEST(Value, PrintsAsTomlThatReadsBack) {
  const Value values[] = {
      true,
      false,
      int64_t{0},
      std::numeric_limits<int64_t>::min(),
      std::numeric_limits<int64_t>::max(),
      0.0,
      -0.0,
      1.0,
      0.1,
      1e-5,
      6.02e23,
      1e300,
      std::numeric_limits<double>::denorm_min(),
      std::numeric_limits<double>::infinity(),
      -std::numeric_limits<double>::infinity(),
      std::string(""),
      std::string("a \"quoted\" \\ back\nslash\ttab \x01\x7f \xc3\xa9"),
  };
  for (const Value& value : values) {
    const auto node = parse_value(to_toml(value), {});
    ASSERT_TRUE(node.has_value()) << to_toml(value);
    EXPECT_EQ(node->scalar, value) << to_toml(value);
  }
  EXPECT_TRUE(std::signbit(std::get<double>(parse_value("-0.0", {})->scalar)));
  EXPECT_TRUE(std::isnan(std::get<double>(parse_value(to_toml(std::nan("")), {})->scalar)));
}

TEST(Value, Lists) {
  EXPECT_EQ(to_toml(std::vector<int64_t>{}), "[]");
  EXPECT_EQ(to_toml(std::vector<int64_t>{1, -2}), "[1, -2]");
  EXPECT_EQ(to_toml(std::vector<double>{1, 0.5}), "[1.0, 0.5]");
  EXPECT_EQ(to_toml(std::vector<std::string>{"a", "b\""}), "[\"a\", \"b\\\"\"]");
  EXPECT_EQ(to_toml(Value()), "");
}

TEST(ParseValue, IsOneValueOrNone) {
  EXPECT_EQ(parse_value("0x10", {})->scalar, Value(int64_t{16}));
  EXPECT_EQ(parse_value("[1, [2]]", {})->items.size(), 2u);
  for (const char* none : {"", "word", "1\nother = 2", "[1", "1 2", "9223372036854775808"})
    EXPECT_FALSE(parse_value(none, {}).has_value()) << none;
}

TEST(Excerpt, IsShortAndWholeUtf8) {
  EXPECT_EQ(excerpt(*parse_value("{a = 1, b = [1.0, 'x']}", {})), "{a = 1, b = [1.0, \"x\"]}");
  EXPECT_EQ(excerpt(*parse_value("1979-05-27T07:32:00Z", {})), "1979-05-27T07:32:00Z");
  // The limit falls into the second of two-byte letters.
  EXPECT_EQ(excerpt(*parse_value("'aa\xc3\xa9\xc3\xa9'", {}), 4), "\"aa...");
}

}  // namespace
}  // namespace megatron::config
