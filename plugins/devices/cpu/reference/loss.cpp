// Linear layer with cross entropy, one row of logits at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.hpp"
#include "shapes/loss_shape.hpp"

namespace megatron::cpu::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// logits[j] = x · w_j; −inf for rows of w that are padding.
void logits_of(const LossShape& s, const float* x, const float* w, double* logits) {
  for (int64_t j = 0; j < s.vocab.local_size(); ++j) {
    logits[j] = -kInfinity;
    if (s.vocab.global(j) < 0) continue;
    double sum = 0;
    for (int64_t c = 0; c < s.hidden; ++c) {
      sum += static_cast<double>(x[c]) * static_cast<double>(w[j * s.hidden + c]);
    }
    logits[j] = sum;
  }
}

// −inf entries are padding; a NaN elsewhere makes the sum one.
double log_sum_exp(const double* logits, int64_t n) {
  double largest = -kInfinity;
  for (int64_t j = 0; j < n; ++j) largest = std::max(largest, logits[j]);
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    if (logits[j] != -kInfinity) sum += std::exp(logits[j] - largest);
  }
  return sum == 0 ? -kInfinity : largest + std::log(sum);
}

// Operands of the gradient, wherever the op has them.
struct Gradient {
  const float *x, *w;
  const int32_t* labels;
  const float *dlse, *dtarget;
  float *dx, *dw;
};

// dlogits = dlse·exp(logits − lse) + dtarget·onehot(label): row r of dx, and its share of dw.
void gradient_row(const LossShape& s, const Gradient& g, int64_t r, const double* logits,
                  double lse, double* dx, double* dw) {
  std::fill_n(dx, s.hidden, 0.0);
  const int64_t label = s.vocab.local(g.labels[r]);
  for (int64_t j = 0; j < s.vocab.local_size(); ++j) {
    if (logits[j] == -kInfinity) continue;
    double d = static_cast<double>(g.dlse[r]) * std::exp(logits[j] - lse);
    if (j == label) d += static_cast<double>(g.dtarget[r]);
    for (int64_t c = 0; c < s.hidden; ++c) {
      dx[c] += d * static_cast<double>(g.w[j * s.hidden + c]);
      dw[j * s.hidden + c] += d * static_cast<double>(g.x[r * s.hidden + c]);
    }
  }
  for (int64_t c = 0; c < s.hidden; ++c) g.dx[r * s.hidden + c] = static_cast<float>(dx[c]);
}

void statistics_row(const LossShape& s, int32_t label, const double* logits, float* lse,
                    float* target) {
  *lse = static_cast<float>(log_sum_exp(logits, s.vocab.local_size()));
  const int64_t row = s.vocab.local(label);
  *target = row < 0 ? 0.0f : static_cast<float>(logits[row]);
}

// Scratch: logits[v], dx[k], dw[v, k].
uint64_t scratch_bytes(const LossShape& s, bool gradient) {
  const int64_t v = s.vocab.local_size();
  return static_cast<uint64_t>(v + (gradient ? s.hidden + v * s.hidden : 0)) * sizeof(double);
}

void begin_dw(const LossShape& s, const float* dw, bool add, double* sums) {
  for (int64_t i = 0; i < s.vocab.local_size() * s.hidden; ++i) {
    sums[i] = add ? static_cast<double>(dw[i]) : 0.0;
  }
}

}  // namespace

std::unique_ptr<Kernel> linear_cross_entropy(const KernelDesc& desc, const Host&,
                                             std::string& reason) {
  const auto s = loss_shape(desc, 3, 2);
  if (!is_f32(desc, reason, 2)) return nullptr;
  return make_kernel(kName, scratch_bytes(s, false), [s](const Launch& l) {
    auto* logits = l.workspace<double>();
    for (int64_t r = 0; r < s.rows; ++r) {
      logits_of(s, l.input(0) + r * s.hidden, l.input(1), logits);
      statistics_row(s, l.input<int32_t>(2)[r], logits, l.output(0) + r, l.output(1) + r);
    }
  });
}

std::unique_ptr<Kernel> linear_cross_entropy_grad(const KernelDesc& desc, const Host&,
                                                  std::string& reason) {
  const auto s = loss_shape(desc, 6, 2);
  if (!is_f32(desc, reason, 2)) return nullptr;
  return make_kernel(kName, scratch_bytes(s, true), [s, acc = Accumulation(desc)](const Launch& l) {
    const Gradient g{l.input(0), l.input(1),  l.input<int32_t>(2), l.input(4),
                     l.input(5), l.output(0), l.output(1)};
    auto* logits = l.workspace<double>();
    double *dx = logits + s.vocab.local_size(), *dw = dx + s.hidden;
    begin_dw(s, g.dw, acc.adds(l, 1), dw);
    for (int64_t r = 0; r < s.rows; ++r) {
      logits_of(s, g.x + r * s.hidden, g.w, logits);
      gradient_row(s, g, r, logits, static_cast<double>(l.input(3)[r]), dx, dw);
    }
    std::transform(dw, dw + s.vocab.local_size() * s.hidden, g.dw,
                   [](double d) { return static_cast<float>(d); });
  });
}

std::unique_ptr<Kernel> linear_cross_entropy_train(const KernelDesc& desc, const Host&,
                                                   std::string& reason) {
  const auto s = loss_shape(desc, 5, 4);
  if (!is_f32(desc, reason, 2)) return nullptr;
  return make_kernel(kName, scratch_bytes(s, true), [s, acc = Accumulation(desc)](const Launch& l) {
    const Gradient g{l.input(0), l.input(1),  l.input<int32_t>(2), l.input(3),
                     l.input(4), l.output(2), l.output(3)};
    auto* logits = l.workspace<double>();
    double *dx = logits + s.vocab.local_size(), *dw = dx + s.hidden;
    begin_dw(s, g.dw, acc.adds(l, 3), dw);
    for (int64_t r = 0; r < s.rows; ++r) {
      logits_of(s, g.x + r * s.hidden, g.w, logits);
      statistics_row(s, g.labels[r], logits, l.output(0) + r, l.output(1) + r);
      gradient_row(s, g, r, logits, log_sum_exp(logits, s.vocab.local_size()), dx, dw);
    }
    std::transform(dw, dw + s.vocab.local_size() * s.hidden, g.dw,
                   [](double d) { return static_cast<float>(d); });
  });
}

}  // namespace megatron::cpu::reference
