// The bet of the design, tested: one logical GPT, every parallelism as a placement, each layout's
// curve equal to one rank's. Ranks are threads of this process; docs/adr/0001 has the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "megatron/status.hpp"
#include "support/layout_run.hpp"

namespace megatron::test {
namespace {

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < b.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / b[i]);
  return worst;
}

class Layouts : public testing::TestWithParam<std::string> {};

TEST_P(Layouts, EveryOneTrainsAsOneRank) {
  const std::vector<LayoutCase> cases = {
      {.name = "TP 2", .tensor = 2},
      {.name = "TP 4", .tensor = 4},
      {.name = "TP 2, sequence parallel", .tensor = 2, .sequence_parallel = true},
      {.name = "DP 2", .data = 2},
      {.name = "DP 4", .data = 4},
      {.name = "PP 2, GPipe", .pipeline = 2, .schedule = "gpipe"},
      {.name = "PP 2", .pipeline = 2},
      {.name = "PP 4", .pipeline = 4},
      {.name = "PP 2, interleaved", .pipeline = 2, .schedule = "interleaved", .virtual_stages = 2},
      {.name = "PP 2, zero bubble", .pipeline = 2, .schedule = "zero_bubble"},
      {.name = "PP 4, zero bubble", .pipeline = 4, .schedule = "zero_bubble"},
      {.name = "CP 2, ring", .context = 2, .attention = "ring"},
      {.name = "CP 2, all-gather", .context = 2},
      {.name = "CP 2, all-to-all", .context = 2, .attention = "all_to_all"},
      {.name = "ZeRO-1, DP 2", .data = 2, .zero = 1},
      {.name = "ZeRO-2, DP 2", .data = 2, .zero = 2},
      {.name = "ZeRO-3, DP 2", .data = 2, .zero = 3},
      {.name = "vocabulary padded to 16", .vocab_multiple = 16},
      {.name = "TP 2, vocabulary padded to 16", .tensor = 2, .vocab_multiple = 16},
      {.name = "TP 2, CP 2 ring", .context = 2, .tensor = 2, .attention = "ring"},
      {.name = "TP 2 SP, CP 2 all-to-all",
       .context = 2,
       .tensor = 2,
       .attention = "all_to_all",
       .sequence_parallel = true},
      {.name = "TP 2 SP, CP 2 ring, DP 2",
       .data = 2,
       .context = 2,
       .tensor = 2,
       .attention = "ring",
       .sequence_parallel = true},
      {.name = "CP 2 all-to-all, ZeRO-3 DP 2",
       .data = 2,
       .context = 2,
       .attention = "all_to_all",
       .zero = 3},
      {.name = "PP 2 inside of TP 2", .pipeline = 2, .tensor = 2, .order = "dctp"},
      {.name = "PP 2 inside of ZeRO-1 DP 2", .pipeline = 2, .data = 2, .zero = 1, .order = "dpct"},
      {.name = "PP 2, TP 2, DP 2", .pipeline = 2, .data = 2, .tensor = 2},
      {.name = "PP 2, CP 2 ring, ZeRO-3 DP 2",
       .pipeline = 2,
       .data = 2,
       .context = 2,
       .attention = "ring",
       .zero = 3},
      {.name = "PP 2, TP 2 SP, CP 2 ring, ZeRO-3 DP 2",
       .pipeline = 2,
       .data = 2,
       .context = 2,
       .tensor = 2,
       .attention = "ring",
       .sequence_parallel = true,
       .zero = 3},
  };
  const TrainingShape shape{.implementation = GetParam()};
  const Trajectory one = train({.name = "one rank"}, shape);
  std::printf("%-44s %10s %10s %10s %10s %10s\n", "layout", "loss", "gradients", "norm",
              "validation", "weights");
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Trajectory many = train(c, shape);
    const double loss = difference(many.losses, one.losses);
    const double norm = difference(many.gradient_norms, one.gradient_norms);
    const double validation = std::abs(many.validation - one.validation) / one.validation;
    const double gradients = largest_difference(many.gradients, one.gradients);
    const double weights = largest_difference(many.weights, one.weights);
    std::printf("%-44s %10.2e %10.2e %10.2e %10.2e %10.2e\n", c.name.c_str(), loss, gradients, norm,
                validation, weights);
    EXPECT_LE(loss, 1e-5);
    EXPECT_LE(norm, 1e-5);
    EXPECT_LE(validation, 1e-5);
    EXPECT_LE(gradients, 1e-5);
    EXPECT_LE(weights, 5e-6);
    // Where nothing is summed in another order, nothing may differ.
    if (c.data * c.context * c.tensor == 1) {
      EXPECT_EQ(many.losses, one.losses);
      EXPECT_EQ(many.gradient_norms, one.gradient_norms);
      EXPECT_TRUE(many.weights == one.weights);
    }
  }
}

// The mesh axes may stand in any order, whatever is cut over them.
TEST(LayoutOrder, EveryOneTrainsAsOneRank) {
  const TrainingShape shape{.micro_batches = 4, .steps = 2};
  const Trajectory one = train({.name = "one rank"}, shape);
  const char* attentions[] = {"all_gather", "ring", "all_to_all"};
  std::string order = "cdpt";
  int n = 0;
  do {
    LayoutCase c{.name = order, .order = order};
    c.pipeline = c.data = c.context = c.tensor = 2;
    (n % 5 == 0 ? c.tensor : n % 5 == 1 ? c.context : n % 5 == 2 ? c.pipeline : c.data) = 1;
    c.attention = attentions[n % 3];
    c.zero = n % 4;
    c.sequence_parallel = n % 2 == 0;
    ++n;
    SCOPED_TRACE(text(order, ", pipeline ", c.pipeline, ", data ", c.data, ", context ", c.context,
                      ", tensor ", c.tensor, ", ZeRO ", c.zero, ", ", c.attention));
    const Trajectory many = train(c, shape);
    EXPECT_LE(difference(many.losses, one.losses), 1e-5);
    EXPECT_LE(largest_difference(many.gradients, one.gradients), 1e-5);
    EXPECT_LE(difference(many.gradient_norms, one.gradient_norms), 1e-5);
    EXPECT_LE(largest_difference(many.weights, one.weights), 5e-6);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(n, 24);
}

INSTANTIATE_TEST_SUITE_P(Implementations, Layouts, testing::Values("auto", "reference"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace megatron::test
