#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "base/file.hpp"
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

// Identifiers between backticks.
std::set<std::string, std::less<>> words_of_code(std::string_view markdown) {
  std::set<std::string, std::less<>> out;
  std::string word;
  bool code = false;
  for (const char c : markdown) {
    if (code && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')) {
      word += c;
      continue;
    }
    if (!word.empty()) out.insert(std::move(word));
    word.clear();
    if (c == '`') code = !code;
  }
  return out;
}

TEST(OpTable, IsDocumented) {
  const auto documented =
      words_of_code(value_or_throw(read_file(MEGATRON_SOURCE_DIR "/docs/ops.md")));
  for (const OpDef& op : op_table()) EXPECT_TRUE(documented.contains(op.name)) << op.name;
}

}  // namespace
}  // namespace megatron::graph
