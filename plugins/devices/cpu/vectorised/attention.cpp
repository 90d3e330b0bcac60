// Attention in tiles of queries and keys with an online softmax (Dao et al. 2022,
// arXiv:2205.14135): the scores are never stored as a whole, and tiles above the causal diagonal
// are never computed. A task is one block of queries of one head of one sequence.
#include <cmath>
#include <limits>

#include "vectorised/attention_blocks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class Forward {
 public:
  explicit Forward(const AttentionShape& a)
      : a_(a),
        queries_(position_blocks(a.query, kTileQueries)),
        keys_(position_blocks(a.key, kTileKeys)),
        gemm_floats_(tile_gemm_floats(a.d)) {
    for (int64_t i = 0; i < a.s; ++i) {
      if (a.query.global(i) < 0) padding_.push_back(i);
    }
  }

  int64_t tasks() const { return a_.b * a_.n * per_head(); }
  int64_t worker_floats() const {
    const int64_t tiles = a_.dropout > 0 ? 2 : 1;
    return tiles * kTileQueries * kTileKeys + kTileQueries * round_up(a_.d, kAlignFloats) +
           3 * kTileQueries + gemm_floats_;
  }

  void run(const Launch& l, int64_t task, float* scratch) const {
    const int64_t b = task / (a_.n * per_head()), h = task / per_head() % a_.n;
    const int64_t rest = task % per_head();
    if (rest == static_cast<int64_t>(queries_.size())) {
      for (const int64_t i : padding_) empty_row(l, b, h, i);
      return;
    }
    // The last queries see the most keys: they go first.
    const auto& q = queries_[queries_.size() - 1 - static_cast<size_t>(rest)];
    if (a_.key_head_of(h) < 0) {
      for (int64_t i = 0; i < q.size; ++i) empty_row(l, b, h, q.local + i);
      return;
    }
    block(l, b, h, q, scratch);
  }

 private:
  int64_t per_head() const {
    return static_cast<int64_t>(queries_.size()) + (padding_.empty() ? 0 : 1);
  }

  void empty_row(const Launch& l, int64_t b, int64_t h, int64_t i) const {
    std::fill_n(l.output(0) + ((b * a_.s + i) * a_.n + h) * a_.d, a_.d, 0.0f);
    l.output(1)[(b * a_.n + h) * a_.s + i] = kMinusInfinity;
  }

  void block(const Launch& l, int64_t b, int64_t h, const PositionBlock& q, float* scratch) const {
    const auto& kernels = softmax_kernels();
    const int64_t d = a_.d, q_row = a_.n * d, k_row = a_.g * d;  // floats between positions
    const int64_t o_row = round_up(d, kAlignFloats);
    float* scores = scratch;  // [queries, keys]
    float* factors = a_.dropout > 0 ? scores + kTileQueries * kTileKeys : scores;
    float* sums = factors + kTileQueries * kTileKeys;  // [queries, d]: Σ exp(score − max)·v so far
    float* max = sums + kTileQueries * o_row;
    float* sum = max + kTileQueries;
    float* shrink = sum + kTileQueries;
    float* gemm = shrink + kTileQueries;
    const int64_t q_at = ((b * a_.s + q.local) * a_.n + h) * d;
    const auto stream = a_.stream(l.rng());
    std::fill_n(max, q.size, kMinusInfinity);
    std::fill_n(sum, q.size, 0.0f);
    bool first = true;
    for (const auto& k : keys_) {
      if (!sees(a_, q, k)) continue;
      const int64_t k_at = ((b * a_.t + k.local) * a_.g + a_.key_head_of(h)) * d;
      GemmPlan::make({GemmForm::nt, q.size, k.size, d, q_row, k_row, kTileKeys})
          .run_serial(l.input(0) + q_at, l.input(1) + k_at, scores, static_cast<float>(a_.scale),
                      false, gemm);
      kernels.forward(score_tile(a_, q, k, scores), max, sum, shrink);
      if (a_.dropout > 0) {
        tile_factors(a_, stream, static_cast<uint64_t>(l.rng().sample_offset + b), h, q, k,
                     factors);
        for (int64_t i = 0; i < q.size; ++i) {
          kernels.multiply(scores + i * kTileKeys, factors + i * kTileKeys, k.size);
        }
      }
      if (!first) kernels.scale_rows(sums, o_row, q.size, d, shrink);
      GemmPlan::make({GemmForm::nn, q.size, d, k.size, kTileKeys, k_row, o_row})
          .run_serial(scores, l.input(2) + k_at, sums, 1.0f, !first, gemm);
      first = false;
    }
    for (int64_t i = 0; i < q.size; ++i) {
      if (sum[i] == 0) {  // no key at all (NaN is not empty)
        empty_row(l, b, h, q.local + i);
        continue;
      }
      const float* row = sums + i * o_row;
      kernels.blend(row, 1.0f / sum[i], row, 0.0f, l.output(0) + q_at + i * q_row, d);
      l.output(1)[(b * a_.n + h) * a_.s + q.local + i] = max[i] + std::log(sum[i]);
    }
  }

  AttentionShape a_;
  std::vector<PositionBlock> queries_, keys_;
  std::vector<int64_t> padding_;  // local queries that are no position
  int64_t gemm_floats_;
};

}  // namespace

std::unique_ptr<Kernel> attention(const KernelDesc& desc, const Host& host, std::string& reason) {
  expect_operands(desc, 3, 2);
  if (!is_f32(desc, reason)) return nullptr;
  Forward forward(attention_shape(desc, 0, 1));
  const auto bytes =
      static_cast<uint64_t>(forward.worker_floats()) * host.workers() * sizeof(float);
  return make_kernel(kName, bytes, [forward = std::move(forward), host](const Launch& l) {
    for_tasks(host, forward.tasks(), [&](int64_t task, uint32_t worker) {
      forward.run(l, task, l.workspace<float>() + worker * forward.worker_floats());
    });
  });
}

// out = Σ out_x·exp(lse_x − lse) with lse = log(exp(lse_a) + exp(lse_b)).
std::unique_ptr<Kernel> attention_merge(const KernelDesc& desc, const Host& host,
                                        std::string& reason) {
  expect_operands(desc, 4, 2);
  if (!is_f32(desc, reason)) return nullptr;
  const auto& t = desc.outputs[0];
  expect(t.rank() == 4, desc, "out must be [batch, seq, heads, head_dim]");
  const int64_t s = t.dims[1], n = t.dims[2], d = t.dims[3];
  const auto positions = Pieces::of(t.dims[0] * s, 64);
  return make_kernel(kName, 0, [=](const Launch& l) {
    for_tasks(host, positions.count(), [&](int64_t task, uint32_t) {
      const int64_t begin = positions.begin(task) * n, count = positions.length(task) * n;
      for (int64_t row = begin; row < begin + count; ++row) {  // (b, s, n)
        const int64_t stat = (row / (s * n) * n + row % n) * s + row / n % s;
        const float a = l.input(1)[stat], b = l.input(3)[stat];
        const float largest = a <= b ? b : a;
        const bool empty = a == kMinusInfinity && b == kMinusInfinity;
        const float lse =
            empty ? largest : largest + std::log(std::exp(a - largest) + std::exp(b - largest));
        softmax_kernels().blend(l.input(0) + row * d, empty ? 0.0f : std::exp(a - lse),
                                l.input(2) + row * d, empty ? 0.0f : std::exp(b - lse),
                                l.output(0) + row * d, d);
        l.output(1)[stat] = lse;
      }
    });
  });
}

}  // namespace megatron::cpu::vectorised
