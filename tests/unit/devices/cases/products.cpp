// linear and its gradients as sums over the contracted labels.
#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

// c[i, j] = Σ_l a[i·ai + l·al] · b[j·bj + l·bl], added to what an accumulator holds.
Formula product(int64_t rows, int64_t columns, int64_t inner, int64_t ai, int64_t al, int64_t bj,
                int64_t bl) {
  return [=](const OpCase& c) {
    Values out(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = c.adds(0) ? c.before[0][static_cast<size_t>(i * columns + j)] : 0;
        for (int64_t l = 0; l < inner; ++l) {
          sum += c.inputs[0][static_cast<size_t>(i * ai + l * al)] *
                 c.inputs[1][static_cast<size_t>(j * bj + l * bl)];
        }
        out[static_cast<size_t>(i * columns + j)] = sum;
      }
    }
    return std::vector<Values>{out};
  };
}

struct Sizes {
  int64_t m, n, k;
};

void add_flat(std::vector<OpCase>& cases, const Sizes& s) {
  const auto [m, n, k] = s;
  const auto variant = text(m, "x", n, "x", k);
  cases.push_back(CaseWriter("linear", variant)
                      .attr("contract", int64_t{1})
                      .input(f32({m, k}))
                      .input(f32({n, k}))
                      .output(f32({m, n}))
                      .formula(product(m, n, k, k, 1, k, 1)));
  cases.push_back(CaseWriter("linear_dgrad", variant)
                      .attr("contract", int64_t{1})
                      .input(f32({m, n}))
                      .input(f32({n, k}))
                      .output(f32({m, k}))
                      .formula(product(m, k, n, n, 1, 1, k)));
  cases.push_back(CaseWriter("linear_wgrad", variant)
                      .attr("contract", int64_t{1})
                      .input(f32({m, n}))
                      .input(f32({m, k}))
                      .output(f32({n, k}))
                      .formula(product(n, k, m, 1, n, 1, k)));
  for (const double flag : {0.0, 1.0}) {
    cases.push_back(CaseWriter("linear_wgrad", text(variant, flag != 0 ? "_add" : "_overwrite"))
                        .attr("contract", int64_t{1})
                        .input(f32({m, n}))
                        .input(f32({m, k}))
                        .output(f32({n, k}))
                        .accumulates()
                        .scalar(flag)
                        .formula(product(n, k, m, 1, n, 1, k)));
  }
}

// Groups of dimensions: x[2, 3, (4, 5)] w[(2, 3), (4, 5)].
void add_grouped(std::vector<OpCase>& cases) {
  cases.push_back(CaseWriter("linear", "groups")
                      .attr("contract", int64_t{2})
                      .input(f32({2, 3, 4, 5}))
                      .input(f32({2, 7, 4, 5}))
                      .output(f32({2, 3, 2, 7}))
                      .formula(product(6, 14, 20, 20, 1, 20, 1)));
  cases.push_back(CaseWriter("linear_dgrad", "groups")
                      .attr("contract", int64_t{2})
                      .input(f32({2, 3, 2, 7}))
                      .input(f32({2, 7, 4, 5}))
                      .output(f32({2, 3, 4, 5}))
                      .formula(product(6, 20, 14, 14, 1, 1, 20)));
  cases.push_back(CaseWriter("linear_wgrad", "groups")
                      .attr("contract", int64_t{2})
                      .input(f32({2, 3, 2, 7}))
                      .input(f32({2, 3, 4, 5}))
                      .output(f32({2, 7, 4, 5}))
                      .formula(product(14, 20, 6, 1, 14, 1, 20)));
}

}  // namespace

void add_product_cases(std::vector<OpCase>& cases) {
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{1, 17, 5}, Sizes{7, 1, 3}, Sizes{5, 33, 64},
                         Sizes{13, 11, 1}, Sizes{64, 48, 32}, Sizes{200, 390, 401}}) {
    add_flat(cases, s);
  }
  add_grouped(cases);
}

}  // namespace megatron::cpu::testing
