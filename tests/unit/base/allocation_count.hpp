#pragma once

#include <cstdint>

namespace megatron {

// Allocations by malloc, its relatives and operator new in this process so far; always 0 under ASan
// and TSan, which own them.
int64_t allocation_count();

}  // namespace megatron
