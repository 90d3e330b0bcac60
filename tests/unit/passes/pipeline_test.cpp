// The driver of passes, and how blocks are dealt to pipeline stages.
#include "passes/pipeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.hpp"
#include "passes/pipeline_cut.hpp"

namespace megatron::passes {
namespace {

graph::Program sound() {
  return *graph::parse("program p\ninput %x : f32[2]\n%y = neg(%x) : f32[2]\noutput y = %y\nend\n");
}

TEST(RunPasses, AnErrorNamesThePass) {
  const Pass passes[] = {
      {"first", [](graph::Program&) { return Status(); }},
      {"second", [](graph::Program&) { return invalid_argument("the fact", "the cause"); }}};
  auto program = sound();
  EXPECT_EQ(run_passes(program, passes).message(),
            "the fact\n  the cause\n  while applying pass 'second' to program 'p'");
}

TEST(RunPasses, VerifiesAfterEach) {
  const Pass passes[] = {{"breaks", [](graph::Program& p) {
                            p.values[p.nodes[0].outputs[0]].type.dims[0].size = 3;
                            return Status();
                          }}};
  auto program = sound();
  EXPECT_EQ(run_passes(program, passes).message(),
            "program 'p': node 'neg' making %y makes %y of type f32[3] where the op infers f32[2]\n"
            "  while verifying program 'p' after pass 'breaks'");
}

TEST(RunPasses, TheOptimisationsAreSound) {
  auto program = sound();
  EXPECT_TRUE(run_passes(program, optimisation_passes()).ok());
  EXPECT_EQ(graph::print(program), graph::print(sound()));
}

Layout pipeline(int64_t ranks, PipelineSplit split = {}) {
  Layout layout;
  layout.axes = {{"pipeline", ranks}};
  layout.pipeline_axis = "pipeline";
  layout.pipeline = std::move(split);
  return layout;
}

struct Deal {
  const char* what;
  int64_t blocks, ranks;
  PipelineSplit split;
  std::vector<int64_t> first;
};
class MakeCut : public testing::TestWithParam<Deal> {};

TEST_P(MakeCut, FirstBlockOfEachVirtualStage) {
  const auto& deal = GetParam();
  const auto cut = make_cut(pipeline(deal.ranks, deal.split), deal.blocks);
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_EQ(cut->first_block, deal.first);
  EXPECT_EQ(cut->blocks, deal.blocks);
}
INSTANTIATE_TEST_SUITE_P(Stages, MakeCut,
                         testing::Values(Deal{"even", 4, 2, {}, {0, 2}},
                                         Deal{"first_larger", 5, 2, {}, {0, 3}},
                                         Deal{"seven_on_three", 7, 3, {}, {0, 3, 5}},
                                         Deal{"one_each", 3, 3, {}, {0, 1, 2}},
                                         Deal{"virtual", 8, 2, {.virtual_stages = 2}, {0, 2, 4, 6}},
                                         Deal{"short_first", 7, 3, {.first_layers = 1}, {0, 1, 4}},
                                         Deal{"short_last", 7, 3, {.last_layers = 1}, {0, 3, 6}},
                                         Deal{"letters", 4, 2, {.layout = "Et|tttL"}, {0, 1}}),
                         [](const auto& test) { return std::string(test.param.what); });

TEST(MakeCut, ErrorsNameTheNumbers) {
  const auto message = [](int64_t ranks, PipelineSplit split, int64_t blocks) {
    return std::string(make_cut(pipeline(ranks, std::move(split)), blocks).status().message());
  };
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(message(4, {}, 3), AllOf(HasSubstr("3"), HasSubstr("4")));
  EXPECT_THAT(message(2, {.layout = "Et|ttL"}, 4), AllOf(HasSubstr("3"), HasSubstr("4")));
  EXPECT_THAT(message(2, {.first_layers = 5}, 4),
              AllOf(HasSubstr("4 layers"), HasSubstr("ask for 5")));
}

// What stands before the first block is on the first stage, what stands behind the last one on the
// last.
TEST(PipelineCut, StageOfANode) {
  const auto cut = *make_cut(pipeline(2), 4);
  std::vector<int64_t> stages;
  for (const int64_t block : {-1, 0, 1, 2, 3}) {
    graph::Node node;
    node.block = block;
    stages.push_back(cut.stage_of(node));
  }
  EXPECT_EQ(stages, (std::vector<int64_t>{0, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace megatron::passes
