// Case files: text in, text out. One file holds several cases of named parts:
//
//   === name of the case
//   --- in                      what follows, up to the next --- or ===, is the part "in"
//   --- out
//
// A line that starts with '#' before the first part is a comment. To write a new expected part, run
// the test with MEGATRON_UPDATE_CASES=1: it puts what came out into the file. Read the difference
// before you keep it.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace megatron::test {

struct Case {
  std::string file;
  std::string name;
  std::vector<std::pair<std::string, std::string>> parts;  // name, lines

  bool has(std::string_view part) const;
  // Empty when the case has no such part.
  std::string_view part(std::string_view name) const;
  // A name that GoogleTest accepts.
  std::string test_name() const;
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
// For INSTANTIATE_TEST_SUITE_P.
inline std::string case_name(const testing::TestParamInfo<Case>& test) {
  return test.param.test_name();
}

// The cases of one file; a malformed one ends the test program.
std::vector<Case> read_cases(const std::string& path);

// Expects `actual` to be the part, or makes it so under MEGATRON_UPDATE_CASES.
void expect_part(const Case& c, std::string_view part, std::string actual);

}  // namespace megatron::test
