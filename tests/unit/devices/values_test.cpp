// Every case on every implementation of its op and every instruction set against the case's
// formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "elementwise/expression.hpp"
#include "unit/devices/instruction_set.hpp"
#include "unit/devices/pool_host.hpp"
#include "unit/devices/run_case.hpp"

namespace megatron::cpu::testing {
namespace {

constexpr double kEpsilon = 0x1p-24;  // unit roundoff of f32

// Ops that compute nothing, or nothing that rounds.
bool is_exact(std::string_view op) {
  static const std::set<std::string_view> ops = {
      "slice", "stack",     "unstack", "flatten", "unflatten", "flat_slice", "copy",  "zeros_like",
      "pack",  "embedding", "neg",     "maximum", "minimum",   "greater",    "expand"};
  return ops.contains(op);
}

// What the results may differ by: rounding an operand changes a result by about as much as rounding
// the sums and products behind it, so the formula itself, on operands off by a few roundings, says
// how much f32 can be trusted. Where elements depend on one another, the largest change counts.
std::vector<Values> tolerances(const OpCase& c, const std::vector<Values>& want) {
  std::vector<Values> out;
  for (const auto& w : want) out.emplace_back(w.size(), 0.0);
  if (is_exact(c.desc.op)) {  // but a scalar operand is a double
    for (size_t e = 0; e < want[0].size(); ++e) {
      out[0][e] = std::fabs(static_cast<double>(static_cast<float>(want[0][e])) - want[0][e]);
    }
    return out;
  }
  const bool by_element = c.desc.op == "fused" || find_element_op(c.desc.op) != nullptr;
  std::mt19937 random(7);
  size_t elements = 0;
  for (const auto& w : want) elements += w.size();
  // The largest of many changes needs no second look.
  const int trials = by_element || elements < 1000 ? 3 : 1;
  for (int trial = 0; trial < trials; ++trial) {
    OpCase off = c;
    for (size_t i = 0; i < off.inputs.size(); ++i) {
      if (off.desc.inputs[i].dtype != DType::f32) continue;
      for (double& v : off.inputs[i])
        v *= (random() & 1) != 0 ? 1 + 2 * kEpsilon : 1 - 2 * kEpsilon;
    }
    const auto changed = c.formula(off);
    for (size_t o = 0; o < want.size(); ++o) {
      double largest = 0;
      for (size_t e = 0; e < want[o].size(); ++e) {
        const double change = std::fabs(changed[o][e] - want[o][e]);
        if (!std::isfinite(change)) continue;
        largest = std::max(largest, change);
        if (by_element) out[o][e] = std::max(out[o][e], change);
      }
      if (by_element) continue;
      for (double& t : out[o]) t = std::max(t, largest);
    }
  }
  for (size_t o = 0; o < want.size(); ++o) {
    for (size_t e = 0; e < want[o].size(); ++e) {
      out[o][e] = 8 * out[o][e] + 8 * kEpsilon * std::fabs(want[o][e]) + 1e-37;
    }
  }
  return out;
}

class ValuesTest : public ::testing::TestWithParam<const OpRow*> {
 protected:
  // Memory that a kernel must write holds NaN before, so one that is left behind is far from all.
  void expect_near(const std::vector<Values>& got, const std::vector<Values>& want,
                   const std::vector<Values>& tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t o = 0; o < want.size(); ++o) {
      ASSERT_EQ(got[o].size(), want[o].size());
      for (size_t e = 0; e < want[o].size(); ++e) {
        if (got[o][e] == want[o][e]) continue;  // infinities too
        ASSERT_NEAR(got[o][e], want[o][e], tolerance[o][e]) << "output " << o << " element " << e;
      }
    }
  }
};

TEST_P(ValuesTest, AreThoseOfTheFormula) {
  const PoolHost pool(3);
  int cases = 0;
  for (const OpCase& c : op_cases()) {
    if (c.desc.op != GetParam()->op) continue;
    ++cases;
    const auto want = c.formula(c);
    const auto tolerance = tolerances(c, want);
    for (const auto& implementation : GetParam()->implementations) {
      for (const int64_t set : instruction_sets()) {
        SCOPED_TRACE(text(c.name, ", ", implementation.name, ", ", instruction_set_name(set)));
        const UseInstructionSet use(set);
        expect_near(run(c, implementation.name, pool.host()), want, tolerance);
        if (implementation.name == "reference") break;  // has no vectors
      }
    }
  }
  EXPECT_GT(cases, 0) << "add a case of op '" << GetParam()->op << "' to tests/unit/devices/cases";
}

std::vector<const OpRow*> rows() {
  std::vector<const OpRow*> out;
  for (const auto& row : op_rows()) out.push_back(&row);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, ValuesTest, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param->op); });

TEST(Cases, HaveDifferentNames) {
  std::set<std::string> names;
  for (const auto& c : op_cases()) EXPECT_TRUE(names.insert(c.name).second) << c.name;
}

}  // namespace
}  // namespace megatron::cpu::testing
