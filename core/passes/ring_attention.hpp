// Ring attention (Liu et al. 2023, arXiv:2310.01889): key and value blocks travel around a mesh
// axis while each rank keeps its queries; parts merge by their log-sum-exp, key and value gradients
// travel with their block.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/builder.hpp"

namespace megatron::passes {

struct Ring {
  std::string axis;
  int64_t size;
  int64_t index;  // of this rank
  // Index maps of operand `operand` as the rank at `index` holds it.
  std::function<std::vector<IndexMap>(int64_t index, size_t operand)> maps;
};

// q, k, v -> out, lse
std::vector<graph::ValueId> ring_attention(graph::ProgramBuilder& builder, const Ring& ring,
                                           const std::vector<graph::ValueId>& inputs,
                                           const graph::Attrs& attrs);
// dout, q, k, v, out, lse -> dq, dk, dv
std::vector<graph::ValueId> ring_attention_grad(graph::ProgramBuilder& builder, const Ring& ring,
                                                const std::vector<graph::ValueId>& inputs,
                                                const graph::Attrs& attrs);

}  // namespace megatron::passes
