// Case files of this folder: text in, text out. One file holds several cases:
//
//   === name of the case
//   --- file experiment.toml        a file of the case's folder; the first one is loaded
//   --- set                         one --set assignment a line
//   --- error | --- config          what comes out
#pragma once

#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace megatron::config {

struct Case {
  std::string name;  // FILE/NAME
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> sets;
  bool expects_error = false;
  std::string expected;
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// All cases of all *.txt in `folder`, by file name; a malformed file ends the test program.
std::vector<Case> read_cases(const std::string& folder);

}  // namespace megatron::config
