// Labels: patterns and operand ranks in, the label of each dimension out.
#include "graph/labels.hpp"

#include <gtest/gtest.h>

#include "graph/op.hpp"
#include "graph/text.hpp"

namespace megatron::graph {
namespace {

// "0a 1b, 1b -> 0a": number and letter of each dimension's label.
std::string show(const Labels& labels) {
  const auto list = [&](const std::vector<std::vector<Label>>& operands) {
    std::string out;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (i > 0) out += ",";
      for (const Label l : operands[i]) out += text(" ", l, labels.letters[static_cast<size_t>(l)]);
    }
    return out;
  };
  return list(labels.inputs) + " ->" + list(labels.outputs);
}

struct Row {
  std::string_view pattern;
  std::vector<int> ranks;  // -1 = a scalar
  std::map<char, int> groups;
  std::string expected;
};

class MatchLabels : public testing::TestWithParam<Row> {};

TEST_P(MatchLabels, NumbersDimensions) {
  const Row& row = GetParam();
  const auto labels = match_labels(row.pattern, row.ranks, row.groups);
  EXPECT_EQ(labels.ok() ? show(*labels) : std::string(labels.status().message()), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, MatchLabels,
    testing::Values(
        Row{"MK,NK->MN", {2, 2}, {{'K', 1}}, " 0M 1K, 2N 1K -> 0M 2N"},
        Row{"MK,NK->MN", {3, 3}, {{'K', 2}}, " 0M 1K 2K, 3N 1K 2K -> 0M 3N"},
        Row{"MK,NK->MN", {1, 1}, {{'K', 1}}, " 0K, 0K ->"},
        Row{"MN,MK->NK", {3, 3}, {{'M', 2}}, " 0M 1M 2N, 0M 1M 3K -> 2N 3K"},
        Row{"Mk,k,k->Mk,M,M", {3, 1, 1}, {}, " 0M 1M 2k, 2k, 2k -> 0M 1M 2k, 0M 1M, 0M 1M"},
        Row{"M,vK->MK", {0, 2}, {}, ", 0v 1K -> 1K"},
        // The second operand says how many dimensions M has.
        Row{"Mk,vk,M->M,M", {2, 2, 1}, {}, " 0M 1k, 2v 1k, 0M -> 0M, 0M"},
        Row{"bsnd,btgd,btgd->bsnd,bns",
            {4, 4, 4},
            {},
            " 0b 1s 2n 3d, 0b 4t 5g 3d, 0b 4t 5g 3d -> 0b 1s 2n 3d, 0b 2n 1s"},
        // A scalar stands where the pattern has no labels …
        Row{",M->M", {-1, 2}, {}, ", 0M 1M -> 0M 1M"},
        // … and takes no part anywhere else.
        Row{"M->", {2, -1}, {}, " 0M 1M, ->"},
        Row{"MK,NK->MN", {2}, {{'K', 1}}, "takes 2 tensors, got 1"},
        Row{"MK,NK->MN", {2, 2, 2}, {{'K', 1}}, "takes 2 tensors, got 3"},
        Row{"MK,NK->MN", {2, 2}, {}, "rank of group 'M' of MK,NK->MN is not determined"},
        Row{"MK,NK->MN", {2, 2}, {{'K', 3}}, "rank of group 'M' of MK,NK->MN is not determined"},
        Row{"MK,NK->MN", {2, 2}, {{'K', -1}}, "group 'K' cannot have the rank -1"},
        Row{"Mk,k->M",
            {2, 2},
            {},
            "operand 1 has rank 2 where the labels 'k' of Mk,k->M ask for 1"},
        Row{"M,Mk->k",
            {1, 1},
            {},
            "operand 1 has rank 1 where the labels 'Mk' of M,Mk->k ask for 2"}));

TEST(Labels, ElementwiseOperandsAlignAtTheirLastDimensions) {
  const auto of = [](std::vector<int> ranks) { return show(elementwise_labels(ranks, 1)); };
  EXPECT_EQ(of({2, 2}), " 0M 1M, 0M 1M -> 0M 1M");
  EXPECT_EQ(of({3, 1}), " 0M 1M 2M, 2M -> 0M 1M 2M");
  EXPECT_EQ(of({0, 2}), ", 0M 1M -> 0M 1M");
  EXPECT_EQ(of({-1, 1}), ", 0M -> 0M");
  EXPECT_EQ(of({-1, -1}), ", ->");
}

// The flag of an accumulating node takes no part, but keeps its place.
TEST(Labels, SkipTheAccumulateFlag) {
  const auto program = parse(
      "program p\n"
      "state %g : f32[3, 4]\n"
      "input %dy : f32[2, 3]\n"
      "input %x : f32[2, 4]\n"
      "scalar %accumulate\n"
      "%w = linear_wgrad(%dy, %x, %accumulate) {contract = 1} : f32[3, 4] add into %g\n"
      "end\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto labels = labels_of(*program, program->nodes[0]);
  EXPECT_EQ(show(labels), " 0M 1N, 0M 2K, -> 1N 2K");
  EXPECT_EQ(label_sizes(*program, program->nodes[0], labels), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(flops_of(*program, program->nodes[0]), 2.0 * 2 * 3 * 4);
}

}  // namespace
}  // namespace megatron::graph
