// Which numbers may stand in a field: derived from the ops that read it.
#include "train/field.hpp"

#include <gtest/gtest.h>

#include <array>

#include "graph/text.hpp"

namespace megatron::train {
namespace {

graph::Program program() {
  const auto parsed = graph::parse(
      "program loss\n"
      "  parameter %word : f32[vocab=7, hidden=4] = zeros\n"
      "  parameter %head : f32[vocab=5, hidden=4] = zeros\n"
      "  input %tokens : i32[batch=1, seq=3]\n"
      "  input %labels : i32[batch=1, seq=3]\n"
      "  input %both : i32[batch=1, seq=3]\n"
      "  input %unread : i32[batch=1, seq=3]\n"
      "  input %mask : f32[batch=1, seq=3]\n"
      "  %a = embedding(%tokens, %word) : f32[batch=1, seq=3, hidden=4]\n"
      "  %b = embedding(%both, %word) : f32[batch=1, seq=3, hidden=4]\n"
      "  %x = add(%a, %b) : f32[batch=1, seq=3, hidden=4]\n"
      "  %lse, %target = linear_cross_entropy(%x, %head, %labels) : f32[batch=1, seq=3], "
      "f32[batch=1, seq=3]\n"
      "  %lse2, %target2 = linear_cross_entropy(%x, %head, %both) : f32[batch=1, seq=3], "
      "f32[batch=1, seq=3]\n"
      "  %y = embedding_grad(%both, %x) {axis = \"vocab\", vocab = 6} : f32[vocab=6, hidden=4]\n"
      "end\n");
  MGT_CHECK(parsed.ok(), parsed.status().message());
  return *parsed;
}

TEST(Field, IdsAreBoundedByWhatReadsThem) {
  const graph::Program p = program();
  const auto bound = [&](std::string_view name) {
    const auto ids = field(p, p.find(name)).ids;
    return ids ? text(ids->axis, " ", ids->size) : "none";
  };
  EXPECT_EQ(bound("tokens"), "vocab 7");
  EXPECT_EQ(bound("labels"), "vocab 5");
  EXPECT_EQ(bound("both"), "vocab 5") << "the smallest of the tables";
  EXPECT_EQ(bound("unread"), "none");
  EXPECT_EQ(bound("mask"), "none");
}

TEST(Field, TheFirstIdBeyondIsNamed) {
  const graph::Program p = program();
  const Field labels = field(p, p.find("labels"));
  const auto message = [&](std::array<int32_t, 3> ids) {
    return std::string(check_ids(labels, ids).message());
  };
  EXPECT_EQ(message({0, 4, 2}), "");
  EXPECT_EQ(message({0, 5, 900}),
            "field 'labels' has 5 at position 1\n"
            "  the model's dimension 'vocab' has the indices 0 to 4\n"
            "  fix: give data and model the same tokenizer, or enlarge 'vocab' in the model");
  EXPECT_TRUE(message({0, 1, -1}).starts_with("field 'labels' has -1 at position 2\n"));
  EXPECT_EQ(check_ids(field(p, p.find("unread")), std::array{-1, 1 << 30, 0}).message(), "");
}

}  // namespace
}  // namespace megatron::train
