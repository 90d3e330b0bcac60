// Every op that only moves elements, as boxes copied from one dense tensor to another. What no box
// of the result covers is zero.
#pragma once

#include <array>
#include <vector>

#include "shapes/operands.hpp"

namespace megatron::cpu {

// A copy of sizes[0] × sizes[1] × … elements. Rank 0 is one element. The last dimension is
// contiguous on both sides.
struct Box {
  uint32_t rank = 0;
  std::array<int64_t, MGT_MAX_RANK + 1> sizes{};
  std::array<int64_t, MGT_MAX_RANK + 1> from_strides{};
  std::array<int64_t, MGT_MAX_RANK + 1> to_strides{};
  int64_t from = 0;  // offsets of the first element
  int64_t to = 0;

  int64_t elements() const;
};

struct Movement {
  size_t element_bytes;
  int64_t result_elements;
  std::vector<Box> boxes;
  bool covered;  // the boxes cover the result
};

// slice, stack, unstack, flatten, unflatten, flat_slice, copy, zeros_like. A cut dimension is
// addressed as IndexMap::identity(size).cut(cut, parts, index) says; a slice without "parts" goes
// by the maps.
Movement movement_shape(const KernelDesc& desc);

}  // namespace megatron::cpu
