// sum, sum_squares, expand and pack.
#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

std::vector<Values> column_sums(const OpCase& c) {
  const auto columns = static_cast<size_t>(c.desc.outputs[0].elements());
  Values out = c.adds(0) ? c.before[0] : Values(columns, 0.0);
  for (size_t e = 0; e < c.inputs[0].size(); ++e) out[e % columns] += c.inputs[0][e];
  return {out};
}

std::vector<Values> squares(const OpCase& c) {
  double total = 0;
  for (const double x : c.inputs[0]) total += x * x;
  return {{total}};
}

}  // namespace

void add_reduction_cases(std::vector<OpCase>& cases) {
  const struct {
    std::vector<int64_t> dims;
    int64_t keep;
  } sums[] = {{{}, 0},      {{1}, 0},       {{1}, 1},        {{7, 5}, 0},   {{7, 5}, 1},
              {{7, 5}, 2},  {{5, 1}, 1},    {{3, 4, 6}, 2},  {{0, 4}, 1},   {{9, 130}, 1},
              {{70001}, 0}, {{300, 33}, 1}, {{17, 5000}, 1}, {{3, 0, 2}, 0}};
  for (const auto& s : sums) {
    const std::vector<int64_t> kept(s.dims.end() - s.keep, s.dims.end());
    const auto variant = text(f32(s.dims).to_string(), "_keep_", s.keep);
    cases.push_back(CaseWriter("sum", variant)
                        .attr("keep", s.keep)
                        .input(f32(s.dims))
                        .output(f32(kept))
                        .formula(column_sums));
    for (const double flag : {0.0, 1.0}) {
      cases.push_back(CaseWriter("sum", text(variant, flag != 0 ? "_add" : "_overwrite"))
                          .attr("keep", s.keep)
                          .input(f32(s.dims))
                          .output(f32(kept))
                          .accumulates()
                          .scalar(flag)
                          .formula(column_sums));
    }
  }
  for (const auto& dims : std::vector<std::vector<int64_t>>{{}, {1}, {5, 7}, {0}, {70003}}) {
    const auto variant = f32(dims).to_string();
    cases.push_back(
        CaseWriter("sum_squares", variant).input(f32(dims)).output(f32({})).formula(squares));
    const auto everywhere = [](const OpCase& c) {
      const double g = c.scalars.empty() ? c.inputs[0][0] : c.scalars[0];
      return std::vector<Values>{Values(static_cast<size_t>(c.desc.outputs[0].elements()), g)};
    };
    cases.push_back(CaseWriter("expand", variant)
                        .input(f32({}))
                        .input(f32(dims))
                        .output(f32(dims))
                        .formula(everywhere));
    cases.push_back(CaseWriter("expand", text(variant, "_scalar"))
                        .input(f32(dims))
                        .scalar(0.1)
                        .output(f32(dims))
                        .formula(everywhere));
  }
  for (const int64_t n : {1, 2, 5}) {
    CaseWriter w("pack", text(n));
    for (int64_t i = 0; i < n; ++i) w.input(f32({}));
    cases.push_back(w.output(f32({n})).formula([](const OpCase& c) {
      Values out;
      for (const auto& x : c.inputs) out.push_back(x[0]);
      return std::vector<Values>{out};
    }));
  }
}

}  // namespace megatron::cpu::testing
