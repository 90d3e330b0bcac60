// How attention is cut: positions into blocks, and the scratch of one worker.
#pragma once

#include <vector>

#include "gemm/gemm.hpp"
#include "shapes/attention_shape.hpp"
#include "simd/dropout_factors.hpp"
#include "simd/softmax_kernels.hpp"
#include "tasks.hpp"

namespace megatron::cpu::vectorised {

// Queries and keys of a tile: its scores and their gradients (64 KiB each) stay in the second-level
// cache together with the rows of q, k, v and dout that they come from.
inline constexpr int64_t kTileQueries = 128;
inline constexpr int64_t kTileKeys = 128;

// Consecutive positions, consecutive in memory.
struct PositionBlock {
  int64_t local, global, size;
};

// Each run of the map in blocks of at most `size`, in ascending order.
inline std::vector<PositionBlock> position_blocks(const IndexMap& map, int64_t size) {
  std::vector<PositionBlock> blocks;
  for (const auto& p : map.pieces()) {
    for (int64_t i = 0; i < p.size; i += size) {
      blocks.push_back({p.local_begin + i, p.global_begin + i, std::min(size, p.size - i)});
    }
  }
  return blocks;
}

// What the keys of `k` can give the queries of `q`: nothing when they all come later.
inline bool sees(const AttentionShape& a, const PositionBlock& q, const PositionBlock& k) {
  return !a.causal || k.global <= q.global + q.size - 1;
}

// Row i of the tile may look at the first `first + i·step` keys.
inline ScoreTile score_tile(const AttentionShape& a, const PositionBlock& q, const PositionBlock& k,
                            float* scores) {
  const bool partly = a.causal && k.global + k.size - 1 > q.global;
  return {scores,        kTileKeys, q.size, k.size, partly ? q.global - k.global + 1 : k.size,
          partly ? 1 : 0};
}

// Dropout factors of a tile, at the scores' strides.
inline void tile_factors(const AttentionShape& a, const RandomStream& stream, uint64_t sample,
                         int64_t head, const PositionBlock& q, const PositionBlock& k,
                         float* factors) {
  const auto rate = DropoutRate::of(a.dropout);
  for (int64_t i = 0; i < q.size; ++i) {
    dropout_factors(stream, sample, a.draw(head, q.global + i, k.global), k.size, rate,
                    factors + i * kTileKeys);
  }
}

// The serial products of a tile share one scratch.
inline int64_t tile_gemm_floats(int64_t d) {
  int64_t bytes = 0;
  for (const auto& shape : {GemmShape{GemmForm::nt, kTileQueries, kTileKeys, d, d, d, kTileKeys},
                            GemmShape{GemmForm::nn, kTileQueries, d, kTileKeys, kTileKeys, d, d},
                            GemmShape{GemmForm::tn, kTileKeys, d, kTileQueries, kTileKeys, d, d}}) {
    bytes = std::max(bytes, GemmPlan::make(shape).serial_workspace_bytes());
  }
  return round_up(ceil_div(bytes, static_cast<int64_t>(sizeof(float))), kAlignFloats);
}

}  // namespace megatron::cpu::vectorised
