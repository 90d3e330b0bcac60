// Which global indices of a dimension a rank holds. Masks, positions, random numbers and
// checkpoints go through this map and through nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "megatron/abi/device.h"
#include "megatron/abi/parallel.h"

namespace megatron {

enum class Cut : uint32_t {
  contiguous = MGT_MAP_CONTIGUOUS,  // ceil(n / parts) each; the last ones are padded
  balanced = MGT_MAP_BALANCED,  // 2·parts chunks, part r holds chunks r and 2·parts−1−r: equal
                                // work under a causal mask
};

// Ascending runs of global indices; local indices that no run covers are padding.
class IndexMap {
 public:
  IndexMap() = default;
  static IndexMap identity(int64_t size) { return IndexMap(size, size, {{0, 0, size}}); }
  IndexMap(int64_t global_size, int64_t local_size, std::vector<mgt_index_piece> pieces)
      : global_size_(global_size), local_size_(local_size), pieces_(std::move(pieces)) {}

  int64_t global_size() const { return global_size_; }
  int64_t local_size() const { return local_size_; }
  const std::vector<mgt_index_piece>& pieces() const { return pieces_; }
  bool is_identity() const {
    return local_size_ == global_size_ && pieces_.size() == 1 && pieces_[0].size == global_size_;
  }

  // Global index of a local one; -1 for padding.
  int64_t global(int64_t local) const {
    for (const auto& p : pieces_) {
      if (local >= p.local_begin && local < p.local_begin + p.size) {
        return p.global_begin + (local - p.local_begin);
      }
    }
    return -1;
  }
  // Local index of a global one; -1 when this rank does not hold it.
  int64_t local(int64_t global) const {
    for (const auto& p : pieces_) {
      if (global >= p.global_begin && global < p.global_begin + p.size) {
        return p.local_begin + (global - p.global_begin);
      }
    }
    return -1;
  }

  // Local size of each part when a dimension of `size` is cut: equal on all parts.
  static int64_t part_size(int64_t size, Cut cut, int64_t parts) {
    const int64_t chunks = cut == Cut::balanced ? 2 * parts : parts;
    return (size + chunks - 1) / chunks * (chunks / parts);
  }

  // What part `index` of `parts` holds of this (already local) dimension. Maps nest: cutting a part
  // again gives the map of a dimension that lies on two mesh axes.
  IndexMap cut(Cut how, int64_t parts, int64_t index) const {
    const int64_t chunks = how == Cut::balanced ? 2 * parts : parts;
    const int64_t chunk = (local_size_ + chunks - 1) / chunks;
    IndexMap out(global_size_, chunk * (chunks / parts), {});
    out.take(*this, index * chunk, chunk, 0);
    if (how == Cut::balanced) out.take(*this, (chunks - 1 - index) * chunk, chunk, chunk);
    return out;
  }

  // The same indices with padding at the end up to a multiple of `multiple`.
  IndexMap padded(int64_t multiple) const {
    return IndexMap(global_size_, (local_size_ + multiple - 1) / multiple * multiple, pieces_);
  }

  friend bool operator==(const IndexMap& a, const IndexMap& b) {
    return a.global_size_ == b.global_size_ && a.local_size_ == b.local_size_ &&
           std::equal(a.pieces_.begin(), a.pieces_.end(), b.pieces_.begin(), b.pieces_.end(),
                      [](const mgt_index_piece& x, const mgt_index_piece& y) {
                        return x.local_begin == y.local_begin && x.global_begin == y.global_begin &&
                               x.size == y.size;
                      });
  }

 private:
  // Appends the part of `from` with local indices [begin, begin + size), placed at local index
  // `at`.
  void take(const IndexMap& from, int64_t begin, int64_t size, int64_t at) {
    for (const auto& p : from.pieces_) {
      const int64_t first = std::max(begin, p.local_begin);
      const int64_t last = std::min(begin + size, p.local_begin + p.size);
      if (first >= last) continue;
      const mgt_index_piece piece{at + (first - begin), p.global_begin + (first - p.local_begin),
                                  last - first};
      if (!pieces_.empty() &&
          pieces_.back().local_begin + pieces_.back().size == piece.local_begin &&
          pieces_.back().global_begin + pieces_.back().size == piece.global_begin) {
        pieces_.back().size += piece.size;
      } else {
        pieces_.push_back(piece);
      }
    }
  }

  int64_t global_size_ = 0;
  int64_t local_size_ = 0;
  std::vector<mgt_index_piece> pieces_;
};

}  // namespace megatron
