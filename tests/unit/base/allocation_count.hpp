#pragma once

#include <cstdint>

namespace megatron {

// Calls of operator new in this process so far; always 0 under ASan and TSan, which own it.
int64_t allocation_count();

}  // namespace megatron
