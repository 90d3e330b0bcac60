// Gradient of attention in tiles: the weights are computed again from the log-sum-exp (Dao et al.
// 2022, arXiv:2205.14135, algorithm 4; formulas in reference/attention.cpp). A task is one key head
// of one sequence, whose blocks of keys it takes in ascending order; so dk and dv have one writer.
// With few heads the keys are dealt to several tasks (block j to task j mod chunks), each with its
// own dq; these are added in ascending order.
#include "vectorised/attention_blocks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr int64_t kWantedTasks = 8;
constexpr int64_t kPartialBytes = int64_t{64} << 20;  // of all additional dq together
constexpr int64_t kPieceFloats = 64 * 1024;

class Backward {
 public:
  explicit Backward(const AttentionShape& a)
      : a_(a),
        queries_(position_blocks(a.query, kTileQueries)),
        keys_(position_blocks(a.key, kTileKeys)),
        heads_(static_cast<size_t>(a.g)),
        gemm_floats_(tile_gemm_floats(a.d)) {
    for (int64_t h = 0; h < a.n; ++h) {
      if (const int64_t g = a.key_head_of(h); g >= 0) heads_[static_cast<size_t>(g)].push_back(h);
    }
    const int64_t units = std::max<int64_t>(1, a.b * a.g);
    const int64_t dq_bytes = std::max<int64_t>(1, q_floats() * 4);
    chunks_ = std::min({ceil_div(kWantedTasks, units), static_cast<int64_t>(keys_.size()),
                        1 + kPartialBytes / dq_bytes});
    chunks_ = std::max<int64_t>(1, chunks_);
  }

  uint64_t workspace_bytes(const Host& host) const {
    return static_cast<uint64_t>(delta_floats() + (chunks_ - 1) * dq_stride() +
                                 worker_floats() * host.workers()) *
           sizeof(float);
  }

  void run(const Host& host, const Launch& l) const {
    float* delta = l.workspace<float>();       // [b, n, s]
    float* partials = delta + delta_floats();  // [chunks − 1][b, s, n, d]
    float* scratch = partials + (chunks_ - 1) * dq_stride();
    begin(host, l, delta, partials);
    for_tasks(host, a_.b * a_.g * chunks_, [&](int64_t task, uint32_t worker) {
      const int64_t chunk = task % chunks_;
      float* dq = chunk == 0 ? l.output(0) : partials + (chunk - 1) * dq_stride();
      key_head(l, task / chunks_ / a_.g, task / chunks_ % a_.g, chunk, delta, dq,
               scratch + worker * worker_floats());
    });
    const auto pieces = Pieces::of(chunks_ > 1 ? q_floats() : 0, kPieceFloats, kAlignFloats);
    for_tasks(host, pieces.count(), [&](int64_t task, uint32_t) {
      for (int64_t c = 1; c < chunks_; ++c) {
        softmax_kernels().blend(l.output(0) + pieces.begin(task), 1.0f,
                                partials + (c - 1) * dq_stride() + pieces.begin(task), 1.0f,
                                l.output(0) + pieces.begin(task), pieces.length(task));
      }
    });
  }

 private:
  int64_t q_floats() const { return a_.b * a_.s * a_.n * a_.d; }
  int64_t k_floats() const { return a_.b * a_.t * a_.g * a_.d; }
  int64_t dq_stride() const { return round_up(q_floats(), kAlignFloats); }
  int64_t delta_floats() const { return round_up(a_.b * a_.n * a_.s, kAlignFloats); }
  int64_t worker_floats() const {
    return (a_.dropout > 0 ? 3 : 2) * kTileQueries * kTileKeys + gemm_floats_;
  }

  // Clears all sums; delta = Σ_d dout·out of every row.
  void begin(const Host& host, const Launch& l, float* delta, float* partials) const {
    const auto clear = [&](float* x, int64_t n) {
      const auto pieces = Pieces::of(n, kPieceFloats, kAlignFloats);
      for_tasks(host, pieces.count(), [&](int64_t task, uint32_t) {
        std::fill_n(x + pieces.begin(task), pieces.length(task), 0.0f);
      });
    };
    clear(l.output(0), q_floats());
    clear(l.output(1), k_floats());
    clear(l.output(2), k_floats());
    clear(partials, (chunks_ - 1) * dq_stride());
    const auto positions = Pieces::of(a_.b * a_.s, 64);
    for_tasks(host, positions.count(), [&](int64_t task, uint32_t) {
      const int64_t first = positions.begin(task) * a_.n;
      for (int64_t row = first; row < first + positions.length(task) * a_.n; ++row) {
        const int64_t b = row / (a_.s * a_.n), i = row / a_.n % a_.s, h = row % a_.n;
        delta[(b * a_.n + h) * a_.s + i] =
            softmax_kernels().dot(l.input(0) + row * a_.d, l.input(4) + row * a_.d, a_.d);
      }
    });
  }

  void key_head(const Launch& l, int64_t b, int64_t g, int64_t chunk, const float* delta, float* dq,
                float* scratch) const {
    for (auto j = static_cast<size_t>(chunk); j < keys_.size(); j += static_cast<size_t>(chunks_)) {
      for (const int64_t h : heads_[static_cast<size_t>(g)]) {
        for (const auto& q : queries_) {
          if (sees(a_, q, keys_[j])) tile(l, b, h, g, q, keys_[j], delta, dq, scratch);
        }
      }
    }
  }

  void tile(const Launch& l, int64_t b, int64_t h, int64_t g, const PositionBlock& q,
            const PositionBlock& k, const float* delta, float* dq, float* scratch) const {
    const int64_t d = a_.d, q_row = a_.n * d, k_row = a_.g * d;  // floats between positions
    float* p = scratch;                                          // [queries, keys]
    float* ds = p + kTileQueries * kTileKeys;
    float* factors = a_.dropout > 0 ? ds + kTileQueries * kTileKeys : nullptr;
    float* gemm = (factors != nullptr ? factors : ds) + kTileQueries * kTileKeys;
    const int64_t q_at = ((b * a_.s + q.local) * a_.n + h) * d;
    const int64_t k_at = ((b * a_.t + k.local) * a_.g + g) * d;
    const float *dout = l.input(0) + q_at, *q_rows = l.input(1) + q_at;
    const float *k_rows = l.input(2) + k_at, *v_rows = l.input(3) + k_at;
    const int64_t stat = (b * a_.n + h) * a_.s + q.local;
    const auto scores = GemmPlan::make({GemmForm::nt, q.size, k.size, d, q_row, k_row, kTileKeys});
    scores.run_serial(q_rows, k_rows, p, static_cast<float>(a_.scale), false, gemm);
    scores.run_serial(dout, v_rows, ds, 1.0f, false, gemm);
    if (factors != nullptr) {
      tile_factors(a_, a_.stream(l.rng()), static_cast<uint64_t>(l.rng().sample_offset + b), h, q,
                   k, factors);
    }
    softmax_kernels().backward(score_tile(a_, q, k, p), ds, factors, l.input(5) + stat,
                               delta + stat, static_cast<float>(a_.scale));
    const auto to_keys = GemmPlan::make({GemmForm::tn, k.size, d, q.size, kTileKeys, q_row, k_row});
    to_keys.run_serial(p, dout, l.output(2) + k_at, 1.0f, true, gemm);     // dv += (P∘Z)ᵀ·dout
    to_keys.run_serial(ds, q_rows, l.output(1) + k_at, 1.0f, true, gemm);  // dk += dSᵀ·q
    GemmPlan::make({GemmForm::nn, q.size, d, k.size, kTileKeys, k_row, q_row})
        .run_serial(ds, k_rows, dq + q_at, 1.0f, true, gemm);  // dq += dS·k
  }

  AttentionShape a_;
  std::vector<PositionBlock> queries_, keys_;
  std::vector<std::vector<int64_t>> heads_;  // query heads of each key head
  int64_t gemm_floats_;
  int64_t chunks_;
};

}  // namespace

std::unique_ptr<Kernel> attention_grad(const KernelDesc& desc, const Host& host,
                                       std::string& reason) {
  expect_operands(desc, 6, 3);
  if (!is_f32(desc, reason)) return nullptr;
  Backward backward(attention_shape(desc, 1, 2));
  const uint64_t bytes = backward.workspace_bytes(host);
  return make_kernel(kName, bytes, [backward = std::move(backward), host](const Launch& l) {
    backward.run(host, l);
  });
}

}  // namespace megatron::cpu::vectorised
