// Numbers that the host evaluates in double precision.
#include "runtime/scalars.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/op.hpp"

namespace megatron::runtime {
namespace {

struct Row {
  std::string_view op;
  std::vector<double> operands;
  double expected;
};
class Scalars : public testing::TestWithParam<Row> {};

TEST_P(Scalars, AreExactInDouble) {
  const auto result = evaluate_scalar(GetParam().op, GetParam().operands);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(*result, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Ops, Scalars,
    testing::Values(Row{"add", {0.1, 0.2}, 0.1 + 0.2}, Row{"sub", {0.1, 0.2}, 0.1 - 0.2},
                    Row{"mul", {0.1, 3}, 0.1 * 3}, Row{"div", {1, 3}, 1.0 / 3},
                    Row{"div", {1, 0}, std::numeric_limits<double>::infinity()},
                    Row{"pow", {0.999, 1e5}, std::pow(0.999, 1e5)}, Row{"pow", {0.9, 0}, 1},
                    Row{"maximum", {-1, 2}, 2}, Row{"minimum", {-1, 2}, -1},
                    Row{"greater", {2, 1}, 1}, Row{"greater", {1, 1}, 0}, Row{"neg", {3}, -3},
                    Row{"square", {1e-200}, 0}, Row{"sqrt", {2}, std::sqrt(2.0)},
                    Row{"rsqrt", {4}, 0.5}, Row{"exp", {1}, std::exp(1.0)},
                    Row{"log", {0}, -std::numeric_limits<double>::infinity()},
                    Row{"tanh", {0.5}, std::tanh(0.5)}));

// Every element-wise op has a form for numbers, or a reason not to.
TEST(Scalars, CoverTheOpTable) {
  const std::vector<double> operands = {0.5, 0.25};
  std::vector<std::string_view> without;
  for (const auto& row : graph::op_table()) {
    if (!row.elementwise()) continue;
    const auto result =
        evaluate_scalar(row.name, std::span(operands).first(static_cast<size_t>(row.arity)));
    if (result.ok()) continue;
    EXPECT_EQ(result.status().code(), Code::unimplemented);
    without.push_back(row.name);
  }
  EXPECT_EQ(without, (std::vector<std::string_view>{"dropout", "gelu", "gelu_grad"}));
  EXPECT_EQ(evaluate_scalar("gelu", operands).status().message(),
            "op 'gelu' cannot take numbers alone\n"
            "  the host evaluates them and has no form of it\n"
            "  fix: apply it to a tensor");
}

}  // namespace
}  // namespace megatron::runtime
