// Type inference of every op: operand types in, result types or the error out.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "case_file.hpp"
#include "graph/op.hpp"
#include "graph/text.hpp"

namespace megatron::graph {
namespace {

std::vector<test::Case> cases() {
  return test::read_cases(MEGATRON_SOURCE_DIR "/tests/unit/graph/cases/types.txt");
}

// Parts at `separator` outside of brackets and strings, without surrounding spaces.
std::vector<std::string> split(std::string_view s, char separator) {
  std::vector<std::string> out(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : s) {
    if (c == '"') quoted = !quoted;
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == separator && depth == 0 && !quoted) {
      out.emplace_back();
    } else if (c != ' ' || quoted || !out.back().empty()) {
      out.back() += c;
    }
  }
  if (out.size() == 1 && out[0].empty()) out.clear();
  return out;
}

Type read_type(const std::string& s) {
  if (s == "scalar") return {DType::f64, {}};
  const auto program = parse("program p\ninput %x : " + s + "\nend\n");
  MGT_CHECK(program.ok(), program.status().message());
  return program->values[0].type;
}

AttrValue read_attr(const std::string& s) {
  if (s[0] == '"') return s.substr(1, s.size() - 2);
  if (s[0] == '[') {
    std::vector<int64_t> list;
    for (const auto& n : split(std::string_view(s).substr(1, s.size() - 2), ','))
      list.push_back(std::stoll(n));
    return list;
  }
  if (s.find_first_of(".e") != std::string::npos) return std::stod(s);
  return int64_t{std::stoll(s)};
}

struct Line {
  std::string op;
  std::vector<Type> inputs;
  Attrs attrs;
};

// op(type, type) {name = value, …}
Line read_line(const std::string& s) {
  const auto open = s.find('(');
  const auto close = s.find(')');
  Line line{s.substr(0, open), {}, {}};
  for (const auto& t : split(std::string_view(s).substr(open + 1, close - open - 1), ','))
    line.inputs.push_back(read_type(t));
  if (const auto brace = s.find('{', close); brace != std::string::npos) {
    for (const auto& a :
         split(std::string_view(s).substr(brace + 1, s.rfind('}') - brace - 1), ',')) {
      const auto equals = a.find(" = ");
      line.attrs[a.substr(0, equals)] = read_attr(a.substr(equals + 3));
    }
  }
  return line;
}

Result<std::vector<Type>> infer(const std::string& s) {
  Line line = read_line(s);
  return infer_types(*op(line.op), line.attrs, line.inputs);
}

std::string show(const Result<std::vector<Type>>& types) {
  std::string out;
  if (!types.ok()) return "error: " + std::string(types.status().message());
  for (const auto& t : *types) {
    out += out.empty() ? "" : ", ";
    out += t.is_scalar() ? "scalar" : to_string(t);
  }
  return out.empty() ? "nothing" : out;
}

class Types : public testing::TestWithParam<test::Case> {};

TEST_P(Types, AreInferred) {
  std::istringstream lines{std::string(GetParam().part("in"))};
  std::string out;
  for (std::string line; std::getline(lines, line);) out += show(infer(line)) + "\n";
  test::expect_part(GetParam(), "out", out);
}

INSTANTIATE_TEST_SUITE_P(Ops, Types, testing::ValuesIn(cases()), test::case_name);

// A row that is added to the op table without lines in the case file fails here.
TEST(Types, EveryOpHasALineThatWorksAndOneThatDoesNot) {
  std::map<std::string, int> works;
  std::map<std::string, int> fails;
  for (const auto& c : cases()) {
    std::istringstream lines{std::string(c.part("in"))};
    for (std::string line; std::getline(lines, line);)
      ++(infer(line).ok() ? works : fails)[read_line(line).op];
  }
  for (const OpDef& row : op_table()) {
    EXPECT_GT(works[std::string(row.name)], 0) << row.name;
    EXPECT_GT(fails[std::string(row.name)], 0) << row.name;
  }
}

// Defaults of optional attributes are filled in, and integers are taken for numbers.
TEST(Types, CompletesAttributes) {
  Attrs attrs = {{"causal", int64_t{1}}, {"scale", int64_t{2}}};
  const Type q = read_type("f32[2, 3, 4, 5]");
  ASSERT_TRUE(infer_types(*op("attention"), attrs, std::vector<Type>{q, q, q}).ok());
  EXPECT_EQ(
      attrs,
      (Attrs{{"causal", int64_t{1}}, {"scale", 2.0}, {"dropout", 0.0}, {"site", std::string()}}));
}

}  // namespace
}  // namespace megatron::graph
