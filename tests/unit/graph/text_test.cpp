// The text form: what prints parses back to the same, and what does not parse says where.
#include "graph/text.hpp"

#include <gtest/gtest.h>

#include "case_file.hpp"

namespace megatron::graph {
namespace {

const std::string kCases = MEGATRON_SOURCE_DIR "/tests/unit/graph/cases/";

class RoundTrip : public testing::TestWithParam<test::Case> {};

TEST_P(RoundTrip, PrintsWhatItParsed) {
  const auto program = parse(GetParam().part("in"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  test::expect_part(GetParam(), "in", print(*program));
}

INSTANTIATE_TEST_SUITE_P(Text, RoundTrip,
                         testing::ValuesIn(test::read_cases(kCases + "round_trip.txt")),
                         test::case_name);

class ParserErrors : public testing::TestWithParam<test::Case> {};

TEST_P(ParserErrors, SaysTheLine) {
  const auto program = parse(GetParam().part("in"));
  ASSERT_FALSE(program.ok()) << print(*program);
  test::expect_part(GetParam(), "error", std::string(program.status().message()));
}

INSTANTIATE_TEST_SUITE_P(Text, ParserErrors,
                         testing::ValuesIn(test::read_cases(kCases + "parser_errors.txt")),
                         test::case_name);

// Blank lines, comments and spaces mean nothing; a weight may be left out.
TEST(Text, ReadsWhatPeopleWrite) {
  const auto program = parse(
      "# a comment\n"
      "program  p\n\n"
      "input %x:f32[ m = 4 ]   \n"
      "   # another\n"
      "%s=sum( %x ){ }:f32[]@head.loss\n"
      "loss lm = %s/%s\n"
      "end\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(print(*program),
            "program p\n"
            "  input %x : f32[m=4]\n"
            "  %s = sum(%x) : f32[] @ head.loss\n"
            "  loss lm = %s / %s weight 1\n"
            "end\n");
}

}  // namespace
}  // namespace megatron::graph
