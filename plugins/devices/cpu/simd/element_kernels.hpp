// One instruction of an element-wise chain over a block of elements. Compiled once per instruction
// set. The result of an element does not depend on its place in the block.
#pragma once

#include <cstdint>

#include "elementwise/expression.hpp"

namespace megatron::cpu {

// out[i] = op(a[i], b[i]) for i < n; `out` may be `a` or `b`. A uniform operand is one float. Unary
// ops do not read b.
using ElementFn = void (*)(const float* a, const float* b, float* out, int64_t n);

enum class Uniform : uint8_t { none, a, b };

// Best code for this processor. Thread-safe. dropout's is multiplication by its factors.
ElementFn element_kernel(ElementOp op, Uniform uniform);

}  // namespace megatron::cpu
