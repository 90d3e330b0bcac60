// layer_norm by its definition; its gradients by the Jacobian of one row,
//   dxhat_j/dx_i = rstd·(δ_ij − 1/k − xhat_i·xhat_j/k).
#include <cmath>

#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

std::vector<Values> normalised(const OpCase& c) {
  const auto k = c.inputs[1].size(), rows = c.inputs[0].size() / k;
  const double epsilon = std::get<double>(c.desc.attrs.at("epsilon"));
  Values y(rows * k), mean(rows), rstd(rows);
  for (size_t r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (size_t j = 0; j < k; ++j) sum += c.inputs[0][r * k + j];
    mean[r] = sum / static_cast<double>(k);
    for (size_t j = 0; j < k; ++j) squares += std::pow(c.inputs[0][r * k + j] - mean[r], 2);
    rstd[r] = std::pow(squares / static_cast<double>(k) + epsilon, -0.5);
    for (size_t j = 0; j < k; ++j) {
      y[r * k + j] = (c.inputs[0][r * k + j] - mean[r]) * rstd[r] * c.inputs[1][j] + c.inputs[2][j];
    }
  }
  return {y, mean, rstd};
}

double xhat(const OpCase& c, size_t r, size_t j, size_t k) {
  return (c.inputs[1][r * k + j] - c.inputs[2][r]) * c.inputs[3][r];
}

std::vector<Values> by_jacobian(const OpCase& c) {
  const auto k = c.inputs[4].size(), rows = c.inputs[2].size();
  Values dx(rows * k, 0.0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < k; ++j) {
        const double n = static_cast<double>(k);
        const double slope =
            c.inputs[3][r] * ((i == j ? 1 : 0) - 1 / n - xhat(c, r, i, k) * xhat(c, r, j, k) / n);
        dx[r * k + i] += c.inputs[0][r * k + j] * c.inputs[4][j] * slope;
      }
    }
  }
  return {dx};
}

std::vector<Values> parameters(const OpCase& c) {
  const auto k = static_cast<size_t>(c.desc.outputs[0].elements()), rows = c.inputs[2].size();
  Values gain = c.adds(0) ? c.before[0] : Values(k, 0.0);
  Values bias = c.adds(1) ? c.before[1] : Values(k, 0.0);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < k; ++j) {
      gain[j] += c.inputs[0][r * k + j] * xhat(c, r, j, k);
      bias[j] += c.inputs[0][r * k + j];
    }
  }
  return {gain, bias};
}

CaseWriter parameter_case(const std::vector<int64_t>& dims, std::string_view variant) {
  const std::vector<int64_t> rows(dims.begin(), dims.end() - 1);
  CaseWriter w("layer_norm_param_grad", variant);
  w.input(f32(dims)).input(f32(dims)).input(f32(rows), -0.1, 0.1).input(f32(rows), 0.5, 2);
  return w;
}

}  // namespace

void add_norm_cases(std::vector<OpCase>& cases) {
  const std::vector<int64_t> shapes[] = {{1, 1},  {3, 1},   {1, 5},      {5, 7},    {2, 3, 17}, {8},
                                         {4, 64}, {9, 129}, {2, 70, 96}, {700, 33}, {150, 400}};
  for (const auto& dims : shapes) {
    const std::vector<int64_t> rows(dims.begin(), dims.end() - 1), k{dims.back()};
    const auto variant = f32(dims).to_string();
    cases.push_back(CaseWriter("layer_norm", variant)
                        .attr("epsilon", 1e-5)
                        .input(f32(dims), -2, 3)
                        .input(f32(k))
                        .input(f32(k))
                        .output(f32(dims))
                        .output(f32(rows))
                        .output(f32(rows))
                        .formula(normalised));
    cases.push_back(CaseWriter("layer_norm_grad", variant)
                        .input(f32(dims))
                        .input(f32(dims))
                        .input(f32(rows), -0.1, 0.1)
                        .input(f32(rows), 0.5, 2)
                        .input(f32(k))
                        .output(f32(dims))
                        .formula(by_jacobian));
    cases.push_back(
        parameter_case(dims, variant).output(f32(k)).output(f32(k)).formula(parameters));
    for (const double flag : {0.0, 1.0}) {
      cases.push_back(parameter_case(dims, text(variant, flag != 0 ? "_add" : "_overwrite"))
                          .output(f32(k))
                          .accumulates()
                          .output(f32(k))
                          .accumulates()
                          .scalar(flag)
                          .formula(parameters));
    }
  }
  // Only one of the two accumulates: the other is overwritten.
  cases.push_back(parameter_case({6, 5}, "gain_alone_adds")
                      .output(f32({5}))
                      .accumulates()
                      .output(f32({5}))
                      .scalar(1)
                      .formula(parameters));
}

}  // namespace megatron::cpu::testing
