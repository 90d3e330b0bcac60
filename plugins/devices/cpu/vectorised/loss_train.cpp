// Loss and gradient in one pass over the logits: a block of rows with the whole vocabulary at a
// time, so that its log-sum-exp is known before its gradient is needed.
#include <cmath>
#include <limits>

#include "simd/softmax_kernels.hpp"
#include "vectorised/loss_blocks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class Train {
 public:
  Train(const LossShape& s, const Host& host)
      : s_(s),
        rows_(Pieces::of(s.rows, std::clamp<int64_t>(kLogitFloats / std::max<int64_t>(1, s.held), 1,
                                                     kMaxRows))) {
    int64_t column = 0;
    for (const auto& p : s.vocab.pieces()) {
      if (p.size == 0) continue;
      columns_.push_back({p.local_begin, p.global_begin, p.size, column});
      column += p.size;
    }
    for (int64_t rb = 0; rb < rows_.count(); ++rb) {
      for (const auto& c : columns_) {
        gemm_bytes_ = std::max(gemm_bytes_, products(rb, c).workspace(host));
      }
    }
  }

  uint64_t workspace_bytes() const {
    return static_cast<uint64_t>(logit_floats()) * sizeof(float) + gemm_bytes_;
  }

  void run(const Host& host, const Launch& l, bool adds) const {
    auto* logits = l.workspace<float>();
    float* gemm = logits + logit_floats();
    const float* w = l.input(1);
    float* dw = l.output(3);
    if (!adds) clear_padding(s_, dw);
    if (!adds && s_.rows == 0) std::fill_n(dw, s_.vocab.local_size() * s_.hidden, 0.0f);
    for (int64_t rb = 0; rb < rows_.count(); ++rb) {
      const int64_t first = rows_.begin(rb), count = rows_.length(rb);
      const float* x = l.input(0) + first * s_.hidden;
      float* dx = l.output(2) + first * s_.hidden;
      if (columns_.empty()) std::fill_n(dx, count * s_.hidden, 0.0f);
      for (const auto& c : columns_) {
        run_gemm(products(rb, c).logits, host, x, w + c.local * s_.hidden, logits + c.column, 1.0f,
                 false, gemm);
      }
      const Pieces tasks{count, kTaskRows};
      for_tasks(host, tasks.count(), [&](int64_t task, uint32_t) {
        for (int64_t r = tasks.begin(task); r < tasks.begin(task) + tasks.length(task); ++r) {
          gradient_row(l, first + r, logits + r * s_.held);
        }
      });
      for (const auto& c : columns_) {
        const auto p = products(rb, c);
        run_gemm(p.dx, host, logits + c.column, w + c.local * s_.hidden, dx, 1.0f, c.column > 0,
                 gemm);
        run_gemm(p.dw, host, logits + c.column, x, dw + c.local * s_.hidden, 1.0f, adds || rb > 0,
                 gemm);
      }
    }
  }

 private:
  int64_t logit_floats() const { return round_up(rows_.size * s_.held, kAlignFloats); }
  LossProducts products(int64_t row_block, const ColumnBlock& c) const {
    return LossProducts::make(s_, rows_.length(row_block), c.size, s_.held);
  }

  // Logits of row r -> dlse·softmax + dtarget·onehot(label), in place; lse and target on the way.
  void gradient_row(const Launch& l, int64_t r, float* row) const {
    const auto& kernels = softmax_kernels();
    int64_t label = -1;
    for (const auto& c : columns_) label = std::max(label, c.column_of(l.input<int32_t>(2)[r]));
    l.output(1)[r] = label < 0 ? 0.0f : row[label];
    const float largest = kernels.largest(row, s_.held);
    if (largest == kMinusInfinity) {
      l.output(0)[r] = largest;
      std::fill_n(row, s_.held, 0.0f);
    } else {
      const double sum = kernels.exp_in_place(row, largest, s_.held);
      l.output(0)[r] = static_cast<float>(static_cast<double>(largest) + std::log(sum));
      kernels.scale(row, static_cast<float>(static_cast<double>(l.input(3)[r]) / sum), s_.held);
    }
    if (label >= 0) row[label] += l.input(4)[r];
  }

  LossShape s_;
  Pieces rows_;
  std::vector<ColumnBlock> columns_;
  uint64_t gemm_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> linear_cross_entropy_train(const KernelDesc& desc, const Host& host,
                                                   std::string& reason) {
  const auto shape = loss_shape(desc, 5, 4);
  if (!is_f32(desc, reason, 2)) return nullptr;
  Train train(shape, host);
  const uint64_t bytes = train.workspace_bytes();
  return make_kernel(kName, bytes,
                     [train = std::move(train), host, acc = Accumulation(desc)](const Launch& l) {
                       train.run(host, l, acc.adds(l, 3));
                     });
}

}  // namespace megatron::cpu::vectorised
