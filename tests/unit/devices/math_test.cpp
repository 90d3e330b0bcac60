// The elementary functions of the SIMD kernels on every instruction set: how far they are from the
// exact value over their whole range, and what they give where it ends.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "simd/element_kernels.hpp"
#include "unit/devices/instruction_set.hpp"

namespace megatron::cpu::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

struct Function {
  std::string_view name;
  ElementOp op;
  float low, high;
  double bound;  // in units of the last place of the exact value
  double (*exact)(double);
};

double gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

constexpr Function kFunctions[] = {
    {"exp", ElementOp::exp, -104, 89, 1.1, [](double x) { return std::exp(x); }},
    {"log", ElementOp::log, kTiny, 3.4e38f, 1.0, [](double x) { return std::log(x); }},
    {"tanh", ElementOp::tanh, -10, 10, 1.5, [](double x) { return std::tanh(x); }},
    {"gelu", ElementOp::gelu, -1, 30, 4, gelu},
    {"rsqrt", ElementOp::rsqrt, 1e-30f, 1e30f, 1.5, [](double x) { return 1 / std::sqrt(x); }},
};

std::ostream& operator<<(std::ostream& out, const Function& f) { return out << f.name; }

// Distance of f32's numbers at x; subnormals have that of the smallest normal one.
double last_place(double x) {
  const double size = std::max(std::fabs(x), 0x1p-126);
  return std::exp2(std::floor(std::log2(size)) - 23);
}

std::vector<float> evaluated(ElementOp op, const std::vector<float>& x) {
  std::vector<float> out(x.size());
  element_kernel(op, Uniform::none)(x.data(), x.data(), out.data(), static_cast<int64_t>(x.size()));
  return out;
}

class MathTest : public ::testing::TestWithParam<Function> {};

// Half of the samples uniform between the ends, half with uniform exponents (and signs).
std::vector<float> samples(const Function& f) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> between(f.low, f.high);
  std::uniform_real_distribution<float> exponent(-149, 128), sign(-1, 1);
  std::vector<float> x;
  while (x.size() < 400'000) {
    x.push_back(between(random));
    const float tail = std::copysign(std::exp2(exponent(random)), sign(random));
    if (tail > f.low && tail < f.high) x.push_back(tail);
  }
  return x;
}

TEST_P(MathTest, IsWithinItsBound) {
  const Function& f = GetParam();
  const auto x = samples(f);
  for (const int64_t set : instruction_sets()) {
    const UseInstructionSet use(set);
    const auto y = evaluated(f.op, x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = f.exact(static_cast<double>(x[i]));
      if (std::fabs(want) > static_cast<double>(std::numeric_limits<float>::max())) continue;
      const double error = std::fabs(static_cast<double>(y[i]) - want) / last_place(want);
      if (!(error <= worst)) worst = error, at = i;
    }
    EXPECT_LE(worst, f.bound) << instruction_set_name(set) << ", x = " << x[at] << ": " << y[at];
    RecordProperty(instruction_set_name(set), std::to_string(worst));
  }
}

// Wherever an element stands in a block, in a vector or in what is left over: the same bits.
TEST_P(MathTest, DoesNotDependOnThePlace) {
  const Function& f = GetParam();
  auto x = samples(f);
  x.resize(37);
  for (const int64_t set : instruction_sets()) {
    const UseInstructionSet use(set);
    const auto whole = evaluated(f.op, x);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(evaluated(f.op, {x[i]})[0], whole[i])
          << instruction_set_name(set) << ", place " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, MathTest, ::testing::ValuesIn(kFunctions),
                         [](const auto& f) { return std::string(f.param.name); });

struct Edge {
  ElementOp op;
  float x, want;
};
constexpr Edge kEdges[] = {
    {ElementOp::exp, 0, 1},
    {ElementOp::exp, 90, kInfinity},
    {ElementOp::exp, kInfinity, kInfinity},
    {ElementOp::exp, -kInfinity, 0},
    {ElementOp::exp, -200, 0},
    {ElementOp::exp, kNaN, kNaN},
    {ElementOp::log, 1, 0},
    {ElementOp::log, 0, -kInfinity},
    {ElementOp::log, -1, kNaN},
    {ElementOp::log, kInfinity, kInfinity},
    {ElementOp::log, kNaN, kNaN},
    {ElementOp::tanh, 0, 0},
    {ElementOp::tanh, 100, 1},
    {ElementOp::tanh, -kInfinity, -1},
    {ElementOp::tanh, kNaN, kNaN},
    {ElementOp::gelu, 0, 0},
    {ElementOp::gelu, 1e30f, 1e30f},
    {ElementOp::gelu, -1e30f, 0},
    {ElementOp::gelu, kNaN, kNaN},
    {ElementOp::sqrt, -1, kNaN},
    {ElementOp::rsqrt, 0, kInfinity},
    {ElementOp::rsqrt, kInfinity, 0},
};

TEST(Math, EndsOfTheRange) {
  for (const int64_t set : instruction_sets()) {
    const UseInstructionSet use(set);
    for (const Edge& edge : kEdges) {
      const float got = evaluated(edge.op, {edge.x})[0];
      EXPECT_TRUE(std::isnan(edge.want) ? std::isnan(got) : got == edge.want)
          << instruction_set_name(set) << ", op " << static_cast<int>(edge.op) << " of " << edge.x
          << " gives " << got;
    }
  }
}

}  // namespace
}  // namespace megatron::cpu::testing
