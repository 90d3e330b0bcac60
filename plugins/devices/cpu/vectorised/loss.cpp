// Linear layer with cross entropy, and its gradient, by blocks of rows and of vocabulary: each row
// of w is read once a row block.
#include <cmath>
#include <limits>

#include "simd/softmax_kernels.hpp"
#include "vectorised/loss_blocks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class Blocks {
 public:
  explicit Blocks(const LossShape& s) : s_(s), rows_(Pieces::of(s.rows, kMaxRows)) {
    const int64_t most = std::max<int64_t>(
        kAlignFloats, kLogitFloats / std::max<int64_t>(1, std::min(rows_.size, s.rows)));
    for (const auto& piece : s.vocab.pieces()) {
      const auto parts = Pieces::of(piece.size, most / kAlignFloats * kAlignFloats, kAlignFloats);
      for (int64_t i = 0; i < parts.count(); ++i) {
        columns_.push_back({piece.local_begin + parts.begin(i), piece.global_begin + parts.begin(i),
                            parts.length(i), 0});
        widest_ = std::max(widest_, parts.length(i));
      }
    }
  }

  const LossShape& shape() const { return s_; }
  const Pieces& rows() const { return rows_; }
  const std::vector<ColumnBlock>& columns() const { return columns_; }
  int64_t logit_floats() const { return round_up(rows_.size * widest_, kAlignFloats); }
  LossProducts products(int64_t row_block, const ColumnBlock& c) const {
    return LossProducts::make(s_, rows_.length(row_block), c.size, c.size);
  }
  uint64_t gemm_bytes(const Host& host) const {
    uint64_t bytes = 0;
    for (int64_t r = 0; r < rows_.count(); ++r) {
      for (const auto& c : columns_) bytes = std::max(bytes, products(r, c).workspace(host));
    }
    return bytes;
  }

 private:
  LossShape s_;
  Pieces rows_;
  std::vector<ColumnBlock> columns_;
  int64_t widest_ = 0;
};

// Running statistics of the rows of one block.
struct Statistics {
  float* max;
  double* sum;  // Σ exp(logit − max)
};

void add_to_statistics(const ColumnBlock& c, const float* logits, int64_t row, int64_t label,
                       const Statistics& s, float* target) {
  const auto& kernels = softmax_kernels();
  const float here = kernels.largest(logits, c.size);
  const float now = here <= s.max[row] ? s.max[row] : here;
  if (const int64_t at = c.column_of(label); at >= 0) *target = logits[at];
  if (now == kMinusInfinity) return;
  const double before =
      s.max[row] == kMinusInfinity
          ? 0
          : s.sum[row] * std::exp(static_cast<double>(s.max[row]) - static_cast<double>(now));
  s.sum[row] = before + kernels.exp_sum(logits, now, c.size);
  s.max[row] = now;
}

}  // namespace

std::unique_ptr<Kernel> linear_cross_entropy(const KernelDesc& desc, const Host& host,
                                             std::string& reason) {
  const auto shape = loss_shape(desc, 3, 2);
  if (!is_f32(desc, reason, 2)) return nullptr;
  Blocks blocks(shape);
  const int64_t stats =
      round_up(std::min(blocks.rows().size, std::max<int64_t>(shape.rows, 1)), kAlignFloats);
  const auto bytes = static_cast<uint64_t>(blocks.logit_floats() + 3 * stats) * sizeof(float) +
                     blocks.gemm_bytes(host);
  return make_kernel(kName, bytes, [blocks = std::move(blocks), stats, host](const Launch& l) {
    const LossShape& s = blocks.shape();
    auto* sum = l.workspace<double>();
    auto* max = reinterpret_cast<float*>(sum + stats);
    float* logits = max + stats;
    float* gemm = logits + blocks.logit_floats();
    for (int64_t rb = 0; rb < blocks.rows().count(); ++rb) {
      const int64_t first = blocks.rows().begin(rb), count = blocks.rows().length(rb);
      float *lse = l.output(0) + first, *target = l.output(1) + first;
      std::fill_n(sum, count, 0.0);
      std::fill_n(max, count, kMinusInfinity);
      std::fill_n(target, count, 0.0f);
      const Pieces tasks{count, kTaskRows};
      for (const auto& c : blocks.columns()) {
        run_gemm(blocks.products(rb, c).logits, host, l.input(0) + first * s.hidden,
                 l.input(1) + c.local * s.hidden, logits, 1.0f, false, gemm);
        for_tasks(host, tasks.count(), [&](int64_t task, uint32_t) {
          for (int64_t r = tasks.begin(task); r < tasks.begin(task) + tasks.length(task); ++r) {
            add_to_statistics(c, logits + r * c.size, r, l.input<int32_t>(2)[first + r], {max, sum},
                              target + r);
          }
        });
      }
      for (int64_t r = 0; r < count; ++r) {
        lse[r] = sum[r] == 0 ? kMinusInfinity
                             : static_cast<float>(static_cast<double>(max[r]) + std::log(sum[r]));
      }
    }
  });
}

std::unique_ptr<Kernel> linear_cross_entropy_grad(const KernelDesc& desc, const Host& host,
                                                  std::string& reason) {
  const auto shape = loss_shape(desc, 6, 2);
  if (!is_f32(desc, reason, 2)) return nullptr;
  Blocks blocks(shape);
  const auto bytes =
      static_cast<uint64_t>(blocks.logit_floats()) * sizeof(float) + blocks.gemm_bytes(host);
  return make_kernel(
      kName, bytes, [blocks = std::move(blocks), host, acc = Accumulation(desc)](const Launch& l) {
        const LossShape& s = blocks.shape();
        auto* logits = l.workspace<float>();
        float* gemm = logits + blocks.logit_floats();
        float* dw = l.output(1);
        const bool adds = acc.adds(l, 1);
        if (!adds) clear_padding(s, dw);
        if (!adds && s.rows == 0) std::fill_n(dw, s.vocab.local_size() * s.hidden, 0.0f);
        for (int64_t rb = 0; rb < blocks.rows().count(); ++rb) {
          const int64_t first = blocks.rows().begin(rb), count = blocks.rows().length(rb);
          const float* x = l.input(0) + first * s.hidden;
          float* dx = l.output(0) + first * s.hidden;
          const Pieces tasks{count, kTaskRows};
          if (blocks.columns().empty()) std::fill_n(dx, count * s.hidden, 0.0f);
          for (const auto& c : blocks.columns()) {
            const auto products = blocks.products(rb, c);
            const float* w = l.input(1) + c.local * s.hidden;
            run_gemm(products.logits, host, x, w, logits, 1.0f, false, gemm);
            for_tasks(host, tasks.count(), [&](int64_t task, uint32_t) {
              for (int64_t r = tasks.begin(task); r < tasks.begin(task) + tasks.length(task); ++r) {
                const float lse = l.input(3)[first + r];
                float* row = logits + r * c.size;
                if (lse == kMinusInfinity) {
                  std::fill_n(row, c.size, 0.0f);
                } else {
                  softmax_kernels().exp_scaled(row, lse, l.input(4)[first + r], c.size);
                }
                const int64_t at = c.column_of(l.input<int32_t>(2)[first + r]);
                if (at >= 0) row[at] += l.input(5)[first + r];
              }
            });
            const bool first_block = &c == blocks.columns().data();
            run_gemm(products.dx, host, logits, w, dx, 1.0f, !first_block, gemm);
            run_gemm(products.dw, host, logits, x, dw + c.local * s.hidden, 1.0f, adds || rb > 0,
                     gemm);
          }
        }
      });
}

}  // namespace megatron::cpu::vectorised
