#include "case_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <sstream>

#include "base/file.hpp"

namespace megatron::test {
namespace {

std::string content_of(const std::string& path) {
  auto content = read_file(path);
  MGT_CHECK(content.ok(), content.status().message());
  return *std::move(content);
}

// Without the blank lines that part cases.
std::string trimmed(std::string s) {
  while (s.ends_with("\n\n")) s.pop_back();
  return s == "\n" ? "" : s;
}

// The file with the part's lines replaced; comments and the other cases stay.
void update(const Case& c, std::string_view part, const std::string& actual) {
  std::istringstream lines(content_of(c.file));
  std::string out;
  bool in_case = false;
  bool in_part = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      if (in_part) out += "\n";
      in_case = line.substr(4) == c.name;
      in_part = false;
    } else if (line.starts_with("--- ")) {
      in_part = in_case && line.substr(4) == part;
      if (in_part) {
        out += line + "\n" + actual;
        continue;
      }
    }
    if (!in_part) out += line + "\n";
  }
  MGT_CHECK(write_file(c.file, out).ok(), c.file);
}

}  // namespace

bool Case::has(std::string_view wanted) const {
  return std::any_of(parts.begin(), parts.end(), [&](const auto& p) { return p.first == wanted; });
}

std::string_view Case::part(std::string_view wanted) const {
  const auto it =
      std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == wanted; });
  return it == parts.end() ? std::string_view() : std::string_view(it->second);
}

std::string Case::test_name() const {
  std::string out;
  for (const char ch : name) out += std::isalnum(static_cast<unsigned char>(ch)) != 0 ? ch : '_';
  return out;
}

std::vector<Case> read_cases(const std::string& path) {
  std::istringstream lines(content_of(path));
  std::vector<Case> cases;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({path, line.substr(4), {}});
    } else if (line.starts_with("--- ")) {
      MGT_CHECK(!cases.empty(), text(path, ": part before the first case"));
      cases.back().parts.emplace_back(line.substr(4), "");
    } else if (!cases.empty() && !cases.back().parts.empty()) {
      cases.back().parts.back().second += line + "\n";
    } else {
      MGT_CHECK(line.empty() || line[0] == '#', text(path, ": stray line: ", line));
    }
  }
  for (Case& c : cases) {
    for (auto& [name, lines_of_part] : c.parts) lines_of_part = trimmed(std::move(lines_of_part));
  }
  MGT_CHECK(!cases.empty(), text(path, " has no case"));
  return cases;
}

void expect_part(const Case& c, std::string_view part, std::string actual) {
  if (!actual.empty() && !actual.ends_with('\n')) actual += '\n';
  if (std::getenv("MEGATRON_UPDATE_CASES") != nullptr) {
    ASSERT_TRUE(c.has(part)) << c.name << " has no part '" << part << "'";
    update(c, part, actual);
    return;
  }
  EXPECT_EQ(actual, std::string(c.part(part)));
}

}  // namespace megatron::test
