// Every element-wise op alone: tensors and scalars, broadcast, in place, over long tensors.
#include <cmath>
#include <numbers>

#include "megatron/philox.hpp"
#include "unit/devices/cases/elementwise.hpp"

namespace megatron::cpu::testing {
namespace {

double sigmoid_gelu(double x) {  // the tanh form, written as x·σ(2v)
  const double v = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * v));
}

struct Op {
  std::string_view name;
  size_t arity;
  double low, high;  // of the operands
  bool scalar;       // whether one operand may be a scalar: those that commute
  double (*f)(double, double);
};

constexpr Op kOps[] = {
    {"add", 2, -2, 2, true, [](double a, double b) { return a + b; }},
    {"sub", 2, -2, 2, false, [](double a, double b) { return a - b; }},
    {"mul", 2, -2, 2, true, [](double a, double b) { return a * b; }},
    {"div", 2, 0.5, 2, false, [](double a, double b) { return a / b; }},
    {"pow", 2, 0.5, 2, false, [](double a, double b) { return std::pow(a, b); }},
    {"maximum", 2, -2, 2, true, [](double a, double b) { return std::max(a, b); }},
    {"minimum", 2, -2, 2, true, [](double a, double b) { return std::min(a, b); }},
    {"greater", 2, -2, 2, false, [](double a, double b) { return a > b ? 1.0 : 0.0; }},
    {"neg", 1, -2, 2, true, [](double a, double) { return -a; }},
    {"square", 1, -2, 2, true, [](double a, double) { return a * a; }},
    {"sqrt", 1, 0, 3, true, [](double a, double) { return std::sqrt(a); }},
    {"rsqrt", 1, 0.1, 3, true, [](double a, double) { return 1 / std::sqrt(a); }},
    {"exp", 1, -20, 5, true, [](double a, double) { return std::exp(a); }},
    {"log", 1, 1e-6, 9, true, [](double a, double) { return std::log(a); }},
    {"tanh", 1, -4, 4, true, [](double a, double) { return std::tanh(a); }},
    {"gelu", 1, -5, 5, true, [](double a, double) { return sigmoid_gelu(a); }},
    {"gelu_grad", 2, -4, 4, false,
     [](double x, double dy) {  // five-point differences of gelu, h⁴-exact
       const double h = 1e-3;
       return dy *
              (8 * (sigmoid_gelu(x + h) - sigmoid_gelu(x - h)) -
               (sigmoid_gelu(x + 2 * h) - sigmoid_gelu(x - 2 * h))) /
              (12 * h);
     }},
};

Formula each_element(const Op& op) {
  return elementwise_formula([op](const std::vector<double>& x, const OpCase&, int64_t) {
    return std::vector<double>{op.f(x[0], op.arity == 2 ? x[1] : 0)};
  });
}

void add_binary(std::vector<OpCase>& cases, const Op& op) {
  const auto both = [&](std::string_view variant, const TensorDesc& a, const TensorDesc& b) {
    CaseWriter w(op.name, variant);
    w.input(a, op.low, op.high).input(b, op.low, op.high);
    return w;
  };
  const auto whole = f32({3, 5, 7});
  cases.push_back(both("alike", whole, whole).output(whole).formula(each_element(op)));
  cases.push_back(both("last", whole, f32({7})).output(whole).formula(each_element(op)));
  cases.push_back(
      both("first_broadcasts", f32({5, 7}), whole).output(whole).formula(each_element(op)));
  cases.push_back(both("rank_0", whole, f32({})).output(whole).formula(each_element(op)));
  cases.push_back(both("one", f32({1}), f32({1})).output(f32({1})).formula(each_element(op)));
  for (const int over : {0, 1}) {
    cases.push_back(both(text("over_", over), whole, whole)
                        .output(whole)
                        .in_place(over)
                        .formula(each_element(op)));
  }
  const auto large = f32({70, 1003}), row = f32({1003}), long_row = f32({3, 30001});
  cases.push_back(both("large", large, row).output(large).formula(each_element(op)));
  cases.push_back(
      both("long_row", long_row, f32({30001})).output(long_row).formula(each_element(op)));
  if (!op.scalar) return;
  cases.push_back(CaseWriter(op.name, "scalar")
                      .input(whole, op.low, op.high)
                      .scalar(0.3)
                      .output(whole)
                      .formula(each_element(op)));
}

void add_unary(std::vector<OpCase>& cases, const Op& op) {
  for (const auto& dims : std::vector<std::vector<int64_t>>{{}, {1}, {5, 7}, {16}, {70, 1003}}) {
    const auto t = f32(dims);
    cases.push_back(CaseWriter(op.name, t.to_string())
                        .input(t, op.low, op.high)
                        .output(t)
                        .formula(each_element(op)));
  }
  cases.push_back(CaseWriter(op.name, "in_place")
                      .input(f32({3, 19}), op.low, op.high)
                      .output(f32({3, 19}))
                      .in_place(0)
                      .formula(each_element(op)));
  cases.push_back(
      CaseWriter(op.name, "scalar").scalar(0.3).output(f32({3, 19})).formula(each_element(op)));
}

void add_dropout(std::vector<OpCase>& cases) {
  const struct {
    std::string_view name;
    TensorDesc t;
  } shapes[] = {
      {"one", f32({1})},
      {"whole", f32({3, 5, 7})},
      {"large", f32({2, 90, 401})},
      {"two_chunks", mapped({IndexMap::identity(2), IndexMap::identity(16).cut(Cut::balanced, 2, 1),
                             IndexMap::identity(5)})},
      {"columns", mapped({IndexMap::identity(3), IndexMap::identity(4), piece(24, 8, 8)})},
      {"padding", mapped({piece(9, 4, 2, 1), piece(10, 5, 4, 2), piece(7, 2, 3, 1)})},
  };
  for (const auto& s : shapes) {
    for (const double p : {0.0, 0.1, 0.75}) {
      cases.push_back(CaseWriter("dropout", text(s.name, "_", p))
                          .attr("p", p)
                          .attr("site", "h.1.mlp")
                          .input(s.t)
                          .output(s.t)
                          .formula(elementwise_formula(
                              [](const std::vector<double>& x, const OpCase& c, int64_t e) {
                                return std::vector<double>{
                                    x[0] * dropout_factor(c, e, c.desc.number("p", 0), "h.1.mlp")};
                              })));
    }
  }
}

}  // namespace

Formula elementwise_formula(ElementFormula f) {
  return [f = std::move(f)](const OpCase& c) {
    const int64_t n = c.desc.outputs[0].elements();
    std::vector<Values> out(c.desc.outputs.size(), Values(static_cast<size_t>(n)));
    for (int64_t e = 0; e < n; ++e) {
      std::vector<double> x;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        // Aligned at the last dimensions.
        const auto& t = c.desc.inputs[i];
        auto at = unravel(c.desc.outputs[0], e);
        at.erase(at.begin(), at.end() - static_cast<std::ptrdiff_t>(t.rank()));
        x.push_back(c.inputs[i][static_cast<size_t>(ravel(t, at))]);
      }
      x.insert(x.end(), c.scalars.begin(), c.scalars.end());
      const auto results = f(x, c, e);
      for (size_t o = 0; o < out.size(); ++o) out[o][static_cast<size_t>(e)] = results[o];
    }
    return out;
  };
}

double dropout_factor(const OpCase& c, int64_t e, double p, std::string_view site) {
  const auto& t = c.desc.outputs[0];
  const auto at = unravel(t, e);
  int64_t flat = 0;  // over the global sizes of all dimensions but the first
  for (size_t d = 1; d < t.rank(); ++d) {
    const int64_t global = t.global_index(d, at[d]);
    if (global < 0) return 0;
    flat = flat * t.maps[d].global_size() + global;
  }
  const auto stream = RandomStream::make(c.rng.seed, site_of(site), c.rng.step);
  const int64_t sample = c.rng.sample_offset + (at.empty() ? 0 : at[0]);
  const float u = stream.uniform(static_cast<uint64_t>(flat), static_cast<uint64_t>(sample));
  return static_cast<double>(u) < p ? 0 : 1 / (1 - p);
}

void add_elementwise_cases(std::vector<OpCase>& cases) {
  for (const auto& op : kOps) {
    if (op.arity == 2) {
      add_binary(cases, op);
    } else {
      add_unary(cases, op);
    }
  }
  add_dropout(cases);
}

}  // namespace megatron::cpu::testing
