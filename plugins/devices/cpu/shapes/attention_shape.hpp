// Sizes and positions of one attention kernel: q[b, s, n, d], k and v[b, t, g, d].
#pragma once

#include "megatron/philox.hpp"
#include "shapes/operands.hpp"

namespace megatron::cpu {

struct AttentionShape {
  int64_t b, s, t;
  int64_t n, g;  // query heads and key heads held
  int64_t d;
  bool causal;
  double scale;
  double dropout;  // probability that a weight is dropped
  uint64_t site;
  IndexMap query, key, head, key_head;  // positions and heads held

  // Local key head that local query head `h` reads; by global index, so that a rank that holds some
  // of the query heads finds its key heads wherever they are.
  int64_t key_head_of(int64_t h) const {
    const int64_t global = head.global(h);
    if (global < 0) return -1;
    return key_head.local(global * key_head.global_size() / head.global_size());
  }
  // Index of weight (head, query, key), given by local indices, among the draws of one sequence.
  uint64_t draw(int64_t h, int64_t query_position, int64_t key_position) const {
    return static_cast<uint64_t>(
        (head.global(h) * query.global_size() + query_position) * key.global_size() + key_position);
  }
  RandomStream stream(const mgt_rng_key& rng) const {
    return RandomStream::make(rng.seed, site, rng.step);
  }
};

// `q` and `k` are the indices of those inputs; v follows k.
inline AttentionShape attention_shape(const KernelDesc& desc, size_t q, size_t k) {
  const auto& query = desc.inputs[q];
  const auto& key = desc.inputs[k];
  expect(query.rank() == 4 && key.rank() == 4 && desc.inputs[k + 1].dims == key.dims, desc,
         "q must be [batch, seq, heads, head_dim], k and v alike with key heads");
  AttentionShape a{query.dims[0],
                   query.dims[1],
                   key.dims[1],
                   query.dims[2],
                   key.dims[2],
                   query.dims[3],
                   desc.integer("causal", 0) != 0,
                   desc.number("scale", 1.0),
                   desc.number("dropout", 0.0),
                   site_of(desc.string("site")),
                   query.maps[1],
                   key.maps[1],
                   query.maps[2],
                   key.maps[2]};
  expect(key.dims[0] == a.b && key.dims[3] == a.d, desc, "q, k and v differ in batch or head_dim");
  expect(a.key_head.global_size() > 0 && a.head.global_size() % a.key_head.global_size() == 0, desc,
         text(a.head.global_size(), " heads are not a multiple of ", a.key_head.global_size(),
              " key heads"));
  for (int64_t h = 0; h < a.n; ++h) {
    expect(a.head.global(h) < 0 || a.key_head_of(h) >= 0, desc,
           text("the key head of query head ", a.head.global(h), " is not held here"));
  }
  expect(a.dropout >= 0 && a.dropout < 1, desc, text("dropout ", a.dropout, " is not in [0, 1)"));
  return a;
}

}  // namespace megatron::cpu
