// Where the elements of a local tensor lie among a sequence's draws: docs/ops.md, "dropout". Local
// elements are walked as runs that are contiguous both in memory and in the logical tensor.
#pragma once

#include <algorithm>
#include <vector>

#include "megatron/device.hpp"

namespace megatron::cpu {

class DropoutIndex {
 public:
  DropoutIndex() = default;
  explicit DropoutIndex(const TensorDesc& t) {
    for (size_t d = 1; d < t.rank(); ++d) maps_.push_back(t.maps[d]);
    dims_.assign(t.dims.begin() + (t.rank() > 0 ? 1 : 0), t.dims.end());
    // Trailing dimensions that are held whole extend the runs of the one before them.
    while (maps_.size() > 1 && maps_.back().is_identity()) {
      const auto& before = maps_[maps_.size() - 2];
      const int64_t inner = maps_.back().global_size();
      std::vector<mgt_index_piece> pieces;
      for (const auto& p : before.pieces()) {
        pieces.push_back({p.local_begin * inner, p.global_begin * inner, p.size * inner});
      }
      IndexMap merged(before.global_size() * inner, before.local_size() * inner, std::move(pieces));
      maps_.pop_back();
      dims_.pop_back();
      maps_.back() = std::move(merged);
      dims_.back() *= inner;
    }
    sequence_ = 1;
    for (const int64_t d : dims_) sequence_ *= d;
  }

  // For local elements [begin, begin + count): body(offset from begin, size, sample, e), where e is
  // the logical index of the run's first element, or -1 for padding. Allocates nothing.
  template <class Body>
  void for_runs(int64_t begin, int64_t count, const Body& body) const {
    int64_t done = 0;
    while (done < count) {
      const int64_t local = begin + done;
      const int64_t sample = local / sequence_, within = local % sequence_;
      const int64_t inner = dims_.empty() ? 1 : dims_.back();
      // Logical index of the row (all dimensions but the last); -1 when one of them is padding.
      int64_t row = row_index(within / inner);
      const int64_t column = within % inner;
      int64_t size = std::min(inner - column, count - done);
      int64_t e = row < 0 ? -1 : 0;
      if (!dims_.empty() && row >= 0) e = column_run(row, column, size);
      body(done, size, sample, e);
      done += size;
    }
  }

 private:
  int64_t row_index(int64_t row) const {
    if (dims_.size() < 2) return 0;
    int64_t stride = 1, out = 0;
    for (size_t d = dims_.size() - 1; d-- > 0;) {
      const int64_t global = maps_[d].global(row % dims_[d]);
      if (global < 0) return -1;
      out += global * stride;
      stride *= maps_[d].global_size();
      row /= dims_[d];
    }
    return out;
  }
  // Shortens `size` to the run of the last dimension that starts at `column`.
  int64_t column_run(int64_t row, int64_t column, int64_t& size) const {
    const auto& map = maps_.back();
    int64_t gap = map.local_size();  // up to the next run
    for (const auto& p : map.pieces()) {
      if (column >= p.local_begin && column < p.local_begin + p.size) {
        size = std::min(size, p.local_begin + p.size - column);
        return row * map.global_size() + p.global_begin + column - p.local_begin;
      }
      if (p.local_begin > column) gap = std::min(gap, p.local_begin);
    }
    size = std::min(size, gap - column);
    return -1;
  }

  std::vector<IndexMap> maps_;  // of dimensions 1…, trailing whole ones merged
  std::vector<int64_t> dims_;   // their local sizes
  int64_t sequence_ = 1;        // elements of one local sequence
};

}  // namespace megatron::cpu
