// Fused element-wise chains: what passes write for a layer and for an update, and forms that are
// hard for the placement of intermediate results.
#include <cmath>
#include <numbers>

#include "unit/devices/cases/elementwise.hpp"

namespace megatron::cpu::testing {
namespace {

using Operands = std::vector<double>;

double gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

struct Chain {
  std::string_view name, expr;
  std::vector<std::vector<int64_t>> inputs;
  std::vector<double> scalars;
  size_t outputs;
  ElementFormula formula;
  int in_place = -1;
};

// AdamW of one tensor: w, g, m, v; learning rate, 1−β1^t, 1−β2^t.
std::vector<double> adamw(const Operands& x, const OpCase&, int64_t) {
  const double m = 0.9 * x[2] + 0.1 * x[1], v = 0.99 * x[3] + 0.01 * x[1] * x[1];
  const double step = m / x[5] / (std::sqrt(v / x[6]) + 1e-3) + 0.1 * x[0];
  return {x[0] - x[4] * step, m, v};
}

std::vector<Chain> chains(const std::vector<int64_t>& whole) {
  const std::vector<int64_t> last{whole.back()}, none;
  return {
      {"bias_gelu",
       "t0 = add(i0, i1); t1 = gelu(t0); out t0 t1",
       {whole, last},
       {},
       2,
       [](const Operands& x, const OpCase&, int64_t) {
         return std::vector<double>{x[0] + x[1], gelu(x[0] + x[1])};
       }},
      {"bias_dropout_residual",
       "t0 = add(i0, i1); t1 = dropout(t0) {p = 0.2, site = \"h.4.mlp\"}; t2 = add(t1, i2); out t2",
       {whole, last, whole},
       {},
       1,
       [](const Operands& x, const OpCase& c, int64_t e) {
         return std::vector<double>{(x[0] + x[1]) * dropout_factor(c, e, 0.2, "h.4.mlp") + x[2]};
       }},
      {"two_sites",
       "t0 = dropout(i0) {p = 0.5, site = \"a\"}; t1 = dropout(t0) {p = 0.25, site = \"b\"}; out "
       "t1",
       {whole},
       {},
       1,
       [](const Operands& x, const OpCase& c, int64_t e) {
         return std::vector<double>{x[0] * dropout_factor(c, e, 0.5, "a") *
                                    dropout_factor(c, e, 0.25, "b")};
       }},
      {"adamw",
       "t0 = mul(i2, 0.9); t1 = mul(i1, 0.1); t2 = add(t0, t1); t3 = square(i1); t4 = mul(t3, "
       "0.01);"
       " t5 = mul(i3, 0.99); t6 = add(t5, t4); t7 = div(t2, s1); t8 = div(t6, s2); t9 = sqrt(t8);"
       " t10 = add(t9, 1e-3); t11 = div(t7, t10); t12 = mul(i0, 0.1); t13 = add(t11, t12);"
       " t14 = mul(t13, s0); t15 = sub(i0, t14); out t15 t2 t6",
       {whole, whole, whole, whole},
       {0.01, 0.3, 0.2},
       3,
       adamw,
       0},
      // A pair of results of which the first lies over the input that the second still reads.
      {"overwritten_late",
       "t0 = neg(i0); t1 = mul(i0, i1); out t0 t1",
       {whole, whole},
       {},
       2,
       [](const Operands& x, const OpCase&, int64_t) {
         return std::vector<double>{-x[0], x[0] * x[1]};
       },
       0},
      {"result_twice",
       "t0 = exp(i0); out t0 t0",
       {whole},
       {},
       2,
       [](const Operands& x, const OpCase&, int64_t) {
         return std::vector<double>{std::exp(x[0]), std::exp(x[0])};
       }},
      {"operands_are_results",
       "t0 = add(i0, i1); out i1 s0 t0 2.5",
       {whole, last},
       {0.75},
       4,
       [](const Operands& x, const OpCase&, int64_t) {
         return std::vector<double>{x[1], 0.75, x[0] + x[1], 2.5};
       }},
      // A clipping factor: everything but the last product is the same for all elements.
      {"uniform",
       "t0 = sqrt(i1); t1 = add(t0, 1e-6); t2 = div(s0, t1); t3 = minimum(t2, 1); t4 = mul(i0, t3);"
       " out t4",
       {whole, none},
       {0.5},
       1,
       [](const Operands& x, const OpCase&, int64_t) {
         return std::vector<double>{x[0] * std::min(1.0, 0.5 / (std::sqrt(x[1]) + 1e-6))};
       }},
      // Every intermediate result is alive until the end.
      {"many_alive",
       "t0 = exp(i0); t1 = square(i0); t2 = tanh(i0); t3 = neg(i0); t4 = sqrt(t1); t5 = mul(t0, "
       "t1);"
       " t6 = mul(t2, t3); t7 = sub(t5, t6); t8 = add(t7, t4); t9 = maximum(t8, t3); out t9",
       {whole},
       {},
       1,
       [](const Operands& x, const OpCase&, int64_t) {
         const double a = x[0];
         return std::vector<double>{
             std::max(std::exp(a) * a * a + std::tanh(a) * a + std::fabs(a), -a)};
       }},
  };
}

}  // namespace

void add_chain_cases(std::vector<OpCase>& cases) {
  for (const auto& whole :
       std::vector<std::vector<int64_t>>{{1}, {3, 5, 7}, {2, 40, 129}, {3, 30001}}) {
    for (const Chain& chain : chains(whole)) {
      CaseWriter w("fused", text(chain.name, "_", f32(whole).to_string()));
      w.attr("expr", std::string(chain.expr)).attr("outputs", static_cast<int64_t>(chain.outputs));
      for (const auto& dims : chain.inputs) w.input(f32(dims), 0.1, 2);
      for (const double s : chain.scalars) w.scalar(s);
      for (size_t o = 0; o < chain.outputs; ++o) w.output(f32(whole));
      cases.push_back(w.in_place(chain.in_place).formula(elementwise_formula(chain.formula)));
    }
  }
  // Rows in the middle of one another: [5, 7] and [7] below [3, 5, 7].
  cases.push_back(CaseWriter("fused", "nested_rows")
                      .attr("expr", std::string("t0 = mul(i1, i2); t1 = add(i0, t0); out t1"))
                      .input(f32({3, 5, 7}))
                      .input(f32({5, 7}))
                      .input(f32({7}))
                      .output(f32({3, 5, 7}))
                      .formula(elementwise_formula([](const Operands& x, const OpCase&, int64_t) {
                        return std::vector<double>{x[0] + x[1] * x[2]};
                      })));
}

}  // namespace megatron::cpu::testing
