// How the logits of a linear layer with cross entropy are cut, so that at most a bounded block of
// them is ever stored.
#pragma once

#include <vector>

#include "gemm_pool.hpp"
#include "shapes/loss_shape.hpp"
#include "tasks.hpp"

namespace megatron::cpu::vectorised {

inline constexpr int64_t kLogitFloats = int64_t{24} << 20;  // 96 MiB
inline constexpr int64_t kMaxRows = 4096;
inline constexpr int64_t kTaskRows = 4;

// Consecutive rows of w that hold vocabulary entries, and their columns in the block of logits.
struct ColumnBlock {
  int64_t local, global, size;
  int64_t column;

  // Column of a label in the block of logits; -1 when it is not in this block.
  int64_t column_of(int64_t label) const {
    return label >= global && label < global + size ? column + label - global : -1;
  }
};

// The products over one block of `rows` rows and one column block; logits have `stride` floats a
// row.
struct LossProducts {
  GemmPlan logits, dx, dw;

  static LossProducts make(const LossShape& s, int64_t rows, int64_t columns, int64_t stride) {
    const int64_t k = s.hidden;
    return {GemmPlan::make({GemmForm::nt, rows, columns, k, k, k, stride}),
            GemmPlan::make({GemmForm::nn, rows, k, columns, stride, k, k}),
            GemmPlan::make({GemmForm::tn, columns, k, rows, stride, k, k})};
  }
  uint64_t workspace(const Host& host) const {
    return std::max(
        {gemm_workspace(logits, host), gemm_workspace(dx, host), gemm_workspace(dw, host)});
  }
};

// Rows of dw that are padding get a zero gradient; an accumulator keeps what it holds.
inline void clear_padding(const LossShape& s, float* dw) {
  int64_t next = 0;
  for (const auto& p : s.vocab.pieces()) {
    std::fill(dw + next * s.hidden, dw + p.local_begin * s.hidden, 0.0f);
    next = p.local_begin + p.size;
  }
  std::fill(dw + next * s.hidden, dw + s.vocab.local_size() * s.hidden, 0.0f);
}

}  // namespace megatron::cpu::vectorised
