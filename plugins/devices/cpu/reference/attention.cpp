// Scaled dot-product attention, one row of weights at a time. For query row i and key j, with
// S = scale·q·kᵀ over the keys that i may see, P = exp(S − lse), Z the dropout factors (0 or
// 1/(1−p)):
//   out = (P∘Z)·v
//   D_i = Σ_d dout·out,  dS = P∘((dout·vᵀ)∘Z − D)·scale
//   dq = dS·k,  dk = dSᵀ·q,  dv = (P∘Z)ᵀ·dout
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reference.hpp"
#include "shapes/attention_shape.hpp"

namespace megatron::cpu::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// Offsets of one head's vector at one position.
int64_t query_at(const AttentionShape& a, int64_t b, int64_t i, int64_t h) {
  return ((b * a.s + i) * a.n + h) * a.d;
}
int64_t key_at(const AttentionShape& a, int64_t b, int64_t j, int64_t h) {
  return ((b * a.t + j) * a.g + h) * a.d;
}

// scores[j] = scale·q_i·k_j, −inf where query i may not see key j. Padding sees and shows nothing.
void scores_of(const AttentionShape& a, const float* q, const float* k, int64_t b, int64_t i,
               int64_t h, double* scores) {
  const int64_t position = a.query.global(i);
  const int64_t kv = a.key_head_of(h);
  for (int64_t j = 0; j < a.t; ++j) {
    const int64_t key = a.key.global(j);
    const bool seen = position >= 0 && kv >= 0 && key >= 0 && (!a.causal || key <= position);
    scores[j] =
        seen ? a.scale * dot(q + query_at(a, b, i, h), k + key_at(a, b, j, kv), a.d) : -kInfinity;
  }
}

// 0 or 1/(1−p) for weight (h, i, j) of local sequence b.
double dropout_factor(const AttentionShape& a, const mgt_rng_key& rng, int64_t b, int64_t h,
                      int64_t i, int64_t j) {
  if (a.dropout == 0) return 1;
  const uint64_t e = a.draw(h, a.query.global(i), a.key.global(j));
  const float u = a.stream(rng).uniform(e, static_cast<uint64_t>(rng.sample_offset + b));
  return static_cast<double>(u) < a.dropout ? 0 : 1 / (1 - a.dropout);
}

}  // namespace

std::unique_ptr<Kernel> attention(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 3, 2);
  if (!is_f32(desc, reason)) return nullptr;
  const auto a = attention_shape(desc, 0, 1);
  const auto scratch = static_cast<uint64_t>(a.t + a.d) * sizeof(double);
  return make_kernel(kName, scratch, [a](const Launch& l) {
    const auto* q = l.input(0);
    const auto* k = l.input(1);
    const auto* v = l.input(2);
    auto* weights = l.workspace<double>();  // [t]
    double* row = weights + a.t;            // [d]
    for (int64_t b = 0; b < a.b; ++b) {
      for (int64_t h = 0; h < a.n; ++h) {
        for (int64_t i = 0; i < a.s; ++i) {
          scores_of(a, q, k, b, i, h, weights);
          double largest = -kInfinity;
          for (int64_t j = 0; j < a.t; ++j) largest = std::max(largest, weights[j]);
          double sum = 0;
          std::fill_n(row, a.d, 0.0);
          for (int64_t j = 0; j < a.t; ++j) {
            if (weights[j] == -kInfinity) continue;
            const double e = std::exp(weights[j] - largest);
            const double kept = e * dropout_factor(a, l.rng(), b, h, i, j);
            const float* value = v + key_at(a, b, j, a.key_head_of(h));
            for (int64_t c = 0; c < a.d; ++c) row[c] += kept * static_cast<double>(value[c]);
            sum += e;
          }
          float* out = l.output(0) + query_at(a, b, i, h);
          for (int64_t c = 0; c < a.d; ++c) {
            out[c] = sum == 0 ? 0.0f : static_cast<float>(row[c] / sum);
          }
          l.output(1)[(b * a.n + h) * a.s + i] =
              static_cast<float>(sum == 0 ? -kInfinity : largest + std::log(sum));
        }
      }
    }
  });
}

std::unique_ptr<Kernel> attention_grad(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 6, 3);
  if (!is_f32(desc, reason)) return nullptr;
  const auto a = attention_shape(desc, 1, 2);
  // Scores, then dq, dk, dv in double: the sums over queries and heads end in one rounding.
  const int64_t q_size = a.b * a.s * a.n * a.d, k_size = a.b * a.t * a.g * a.d;
  const auto scratch = static_cast<uint64_t>(a.t + q_size + 2 * k_size) * sizeof(double);
  return make_kernel(kName, scratch, [a, q_size, k_size](const Launch& l) {
    const float *dout = l.input(0), *q = l.input(1), *k = l.input(2), *v = l.input(3);
    const float *out = l.input(4), *lse = l.input(5);
    auto* scores = l.workspace<double>();
    double *dq = scores + a.t, *dk = dq + q_size, *dv = dk + k_size;
    std::fill_n(dq, q_size + 2 * k_size, 0.0);
    for (int64_t b = 0; b < a.b; ++b) {
      for (int64_t h = 0; h < a.n; ++h) {
        const int64_t kv = a.key_head_of(h);
        for (int64_t i = 0; i < a.s; ++i) {
          scores_of(a, q, k, b, i, h, scores);
          const int64_t at = query_at(a, b, i, h);
          const double delta = dot(dout + at, out + at, a.d);
          const double row_lse = static_cast<double>(lse[(b * a.n + h) * a.s + i]);
          for (int64_t j = 0; j < a.t; ++j) {
            if (scores[j] == -kInfinity || row_lse == -kInfinity) continue;
            const int64_t key = key_at(a, b, j, kv);
            const double p = std::exp(scores[j] - row_lse);
            const double z = dropout_factor(a, l.rng(), b, h, i, j);
            const double ds = p * (dot(dout + at, v + key, a.d) * z - delta) * a.scale;
            for (int64_t c = 0; c < a.d; ++c) {
              dq[at + c] += ds * static_cast<double>(k[key + c]);
              dk[key + c] += ds * static_cast<double>(q[at + c]);
              dv[key + c] += p * z * static_cast<double>(dout[at + c]);
            }
          }
        }
      }
    }
    const auto round = [](double x) { return static_cast<float>(x); };
    std::transform(dq, dq + q_size, l.output(0), round);
    std::transform(dk, dk + k_size, l.output(1), round);
    std::transform(dv, dv + k_size, l.output(2), round);
  });
}

// out = Σ out_x·exp(lse_x − lse) with lse = log(exp(lse_a) + exp(lse_b)).
std::unique_ptr<Kernel> attention_merge(const KernelDesc& desc, const Host&, std::string& reason) {
  expect_operands(desc, 4, 2);
  if (!is_f32(desc, reason)) return nullptr;
  const auto& t = desc.outputs[0];
  expect(t.rank() == 4, desc, "out must be [batch, seq, heads, head_dim]");
  return make_kernel(kName, 0, [dims = t.dims](const Launch& l) {
    const int64_t s = dims[1], n = dims[2], d = dims[3];
    for (int64_t row = 0; row < dims[0] * s * n; ++row) {  // (b, s, n)
      const int64_t b = row / (s * n), i = row / n % s, h = row % n;
      const int64_t stat = (b * n + h) * s + i;
      const double lse_a = static_cast<double>(l.input(1)[stat]);
      const double lse_b = static_cast<double>(l.input(3)[stat]);
      const double largest = std::max(lse_a, lse_b);
      const bool empty = lse_a == -kInfinity && lse_b == -kInfinity;
      const double lse =
          empty ? largest
                : largest + std::log(std::exp(lse_a - largest) + std::exp(lse_b - largest));
      const double wa = empty ? 0 : std::exp(lse_a - lse), wb = empty ? 0 : std::exp(lse_b - lse);
      for (int64_t c = row * d; c < (row + 1) * d; ++c) {
        l.output(0)[c] = static_cast<float>(wa * static_cast<double>(l.input(0)[c]) +
                                            wb * static_cast<double>(l.input(2)[c]));
      }
      l.output(1)[stat] = static_cast<float>(lse);
    }
  });
}

}  // namespace megatron::cpu::reference
