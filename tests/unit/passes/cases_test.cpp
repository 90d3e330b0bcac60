// Program text in, program text or error out, for every pass. The cases are in cases/*.txt.
#include <gtest/gtest.h>

#include <functional>

#include "graph/text.hpp"
#include "graph/verifier.hpp"
#include "passes/autodiff.hpp"
#include "passes/cleanup.hpp"
#include "passes/fuse_elementwise.hpp"
#include "passes/fuse_loss.hpp"
#include "unit/graph/case_file.hpp"
#include "unit/passes/partition_case.hpp"

namespace megatron::passes {
namespace {

// The text of what came out; a failure's text when `c` expects one.
std::string outcome(const test::Case& c, const Result<std::string>& result) {
  EXPECT_EQ(result.ok(), !c.has("error")) << result.status().message();
  return result.ok() ? *result : std::string(result.status().message());
}

void check(const test::Case& c,
           const std::function<Result<std::string>(graph::Program, const test::Case&)>& run) {
  auto program = graph::parse(c.part("in"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  test::expect_part(c, c.has("error") ? "error" : "out", outcome(c, run(*std::move(program), c)));
}

Result<std::string> apply(Status (*pass)(graph::Program&), graph::Program program) {
  MGT_RETURN_IF_ERROR(pass(program));
  MGT_RETURN_IF_ERROR(graph::verify(program));
  return graph::print(program);
}

#define MEGATRON_PASS_CASES(Suite, file, ...)                                                    \
  class Suite : public testing::TestWithParam<test::Case> {};                                    \
  TEST_P(Suite, TextInTextOut) {                                                                 \
    check(GetParam(),                                                                            \
          [](graph::Program program,                                                             \
             [[maybe_unused]] const test::Case& c) -> Result<std::string> { __VA_ARGS__; });     \
  }                                                                                              \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      Cases, Suite,                                                                              \
      testing::ValuesIn(test::read_cases(MEGATRON_SOURCE_DIR "/tests/unit/passes/cases/" file)), \
      test::case_name)

MEGATRON_PASS_CASES(Autodiff, "autodiff.txt",
                    MGT_ASSIGN_OR_RETURN(const auto out, differentiate(std::move(program)));
                    return graph::print(out));
MEGATRON_PASS_CASES(StripDropout, "strip_dropout.txt",
                    return apply(strip_dropout, std::move(program)));
MEGATRON_PASS_CASES(DeadNodes, "dead_nodes.txt",
                    return apply(eliminate_dead_nodes, std::move(program)));
MEGATRON_PASS_CASES(FuseLoss, "fuse_loss.txt", return apply(fuse_loss, std::move(program)));
MEGATRON_PASS_CASES(FuseElementwise, "fuse_elementwise.txt",
                    return apply(fuse_elementwise, std::move(program)));
MEGATRON_PASS_CASES(Partition, "partition.txt", return test::partition_case(program, c));
MEGATRON_PASS_CASES(PipelineCut, "pipeline_cut.txt", return test::pipeline_case(program, c));

}  // namespace
}  // namespace megatron::passes
