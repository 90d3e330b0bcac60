#include "case_file.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/file.hpp"
#include "megatron/status.hpp"

namespace megatron::config {
namespace {

void read_file_of_cases(const std::filesystem::path& path, std::vector<Case>& cases) {
  const auto content = read_file(path.string());
  MGT_CHECK(content.ok(), content.status().message());
  std::istringstream lines(*content);
  enum class Part { none, file, set, expected } part = Part::none;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({});
      cases.back().name = text(path.stem().string(), "/", line.substr(4));
      part = Part::none;
    } else if (line.starts_with("--- file ")) {
      cases.back().files.emplace_back(line.substr(9), "");
      part = Part::file;
    } else if (line == "--- set") {
      part = Part::set;
    } else if (line == "--- error" || line == "--- config") {
      cases.back().expects_error = line == "--- error";
      part = Part::expected;
    } else if (part == Part::file) {
      cases.back().files.back().second += line + "\n";
    } else if (part == Part::set) {
      if (!line.empty()) cases.back().sets.push_back(line);
    } else if (part == Part::expected) {
      cases.back().expected += line + "\n";
    } else {
      MGT_CHECK(line.empty() || line[0] == '#', text(path.string(), ": stray line: ", line));
    }
  }
}

}  // namespace

std::vector<Case> read_cases(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const auto& path : paths) read_file_of_cases(path, cases);
  for (Case& c : cases)  // blank lines part the cases
    while (c.expected.ends_with("\n\n")) c.expected.pop_back();
  return cases;
}

}  // namespace megatron::config
