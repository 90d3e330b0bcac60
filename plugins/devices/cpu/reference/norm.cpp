// Layer normalisation (Ba et al. 2016, arXiv:1607.06450) and its gradients. With xhat = (x −
// mean)·rstd:
//   dx    = rstd · (dy·gain − mean_k(dy·gain) − xhat · mean_k(dy·gain·xhat))
//   dgain = Σ_M dy·xhat,  dbias = Σ_M dy
#include <cmath>

#include "reference/reference.hpp"
#include "shapes/row_shapes.hpp"

namespace megatron::cpu::reference {

std::unique_ptr<Kernel> layer_norm(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 3, 3);
  if (!is_f32(desc, reason)) return nullptr;
  const auto [rows, k] = norm_shape(desc, 0);
  const double epsilon = desc.number("epsilon", 1e-5);
  return make_kernel(kName, 0, [rows = rows, k = k, epsilon](const Launch& l) {
    const float* gain = l.input(1);  // [k]
    const float* bias = l.input(2);  // [k]
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = l.input(0) + r * k;
      float* y = l.output(0) + r * k;
      double mean = 0;
      for (int64_t c = 0; c < k; ++c) mean += static_cast<double>(x[c]);
      mean /= static_cast<double>(k);
      double variance = 0;
      for (int64_t c = 0; c < k; ++c) {
        variance += (static_cast<double>(x[c]) - mean) * (static_cast<double>(x[c]) - mean);
      }
      const double rstd = 1.0 / std::sqrt(variance / static_cast<double>(k) + epsilon);
      for (int64_t c = 0; c < k; ++c) {
        y[c] = static_cast<float>((static_cast<double>(x[c]) - mean) * rstd *
                                      static_cast<double>(gain[c]) +
                                  static_cast<double>(bias[c]));
      }
      l.output(1)[r] = static_cast<float>(mean);
      l.output(2)[r] = static_cast<float>(rstd);
    }
  });
}

std::unique_ptr<Kernel> layer_norm_grad(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 5, 1);
  if (!is_f32(desc, reason)) return nullptr;
  const auto [rows, k] = norm_shape(desc, 1);
  return make_kernel(kName, 0, [rows = rows, k = k](const Launch& l) {
    const float* gain = l.input(4);  // [k]
    for (int64_t r = 0; r < rows; ++r) {
      const float* dy = l.input(0) + r * k;
      const float* x = l.input(1) + r * k;
      float* dx = l.output(0) + r * k;
      const double mean = static_cast<double>(l.input(2)[r]);
      const double rstd = static_cast<double>(l.input(3)[r]);
      double sum_g = 0, sum_gx = 0;  // of dy·gain and of dy·gain·xhat
      for (int64_t c = 0; c < k; ++c) {
        const double g = static_cast<double>(dy[c]) * static_cast<double>(gain[c]);
        sum_g += g;
        sum_gx += g * (static_cast<double>(x[c]) - mean) * rstd;
      }
      for (int64_t c = 0; c < k; ++c) {
        const double g = static_cast<double>(dy[c]) * static_cast<double>(gain[c]);
        const double xhat = (static_cast<double>(x[c]) - mean) * rstd;
        dx[c] = static_cast<float>(rstd * (g - (sum_g + xhat * sum_gx) / static_cast<double>(k)));
      }
    }
  });
}

std::unique_ptr<Kernel> layer_norm_param_grad(const KernelDesc& desc, const Host&,
                                              std::string& reason) {
  expect_operands(desc, 4, 2);
  if (!is_f32(desc, reason)) return nullptr;
  const auto [rows, k] = norm_shape(desc, 1);
  return make_kernel(kName, 0, [rows = rows, k = k, acc = Accumulation(desc)](const Launch& l) {
    float* dgain = l.output(0);  // [k]
    float* dbias = l.output(1);  // [k]
    for (int64_t c = 0; c < k; ++c) {
      double gain_sum = acc.adds(l, 0) ? static_cast<double>(dgain[c]) : 0.0;
      double bias_sum = acc.adds(l, 1) ? static_cast<double>(dbias[c]) : 0.0;
      for (int64_t r = 0; r < rows; ++r) {
        const double dy = static_cast<double>(l.input(0)[r * k + c]);
        const double x = static_cast<double>(l.input(1)[r * k + c]);
        gain_sum +=
            dy * (x - static_cast<double>(l.input(2)[r])) * static_cast<double>(l.input(3)[r]);
        bias_sum += dy;
      }
      dgain[c] = static_cast<float>(gain_sum);
      dbias[c] = static_cast<float>(bias_sum);
    }
  });
}

}  // namespace megatron::cpu::reference
