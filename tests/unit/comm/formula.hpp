// Values by formula: what rank r holds at element i, small enough that every sum is exact in every
// type, so that results are compared for equality.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "megatron/abi/base.h"

namespace megatron::test {

inline int64_t value_at(uint32_t rank, uint64_t i) {
  return static_cast<int64_t>((i * 7 + rank * 3 + 1) % 11) - 4;
}

// Exact for small whole numbers.
inline uint16_t small_to_half(int64_t v) {
  if (v == 0) return 0;
  const uint16_t sign = v < 0 ? 0x8000 : 0;
  const auto magnitude = static_cast<uint32_t>(v < 0 ? -v : v);
  const int exponent = std::bit_width(magnitude) - 1;
  const uint32_t mantissa = (magnitude << (10 - exponent)) & 0x3ff;
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent + 15) << 10 | mantissa);
}
inline uint16_t small_to_bf16(int64_t v) {
  const auto f = static_cast<float>(v);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(f) >> 16);
}

inline void put(mgt_dtype dtype, void* buffer, uint64_t i, int64_t v) {
  switch (dtype) {
    case MGT_DTYPE_F32:
      static_cast<float*>(buffer)[i] = static_cast<float>(v);
      break;
    case MGT_DTYPE_F16:
      static_cast<uint16_t*>(buffer)[i] = small_to_half(v);
      break;
    case MGT_DTYPE_BF16:
      static_cast<uint16_t*>(buffer)[i] = small_to_bf16(v);
      break;
    case MGT_DTYPE_I32:
      static_cast<int32_t*>(buffer)[i] = static_cast<int32_t>(v);
      break;
    case MGT_DTYPE_I64:
      static_cast<int64_t*>(buffer)[i] = v;
      break;
    default:
      static_cast<uint8_t*>(buffer)[i] = static_cast<uint8_t>(v);
  }
}

inline bool holds(mgt_dtype dtype, const void* buffer, uint64_t i, int64_t v) {
  unsigned char expected[8] = {};
  put(dtype, expected, 0, v);
  const size_t size = dtype == MGT_DTYPE_I64                              ? 8
                      : dtype == MGT_DTYPE_F32 || dtype == MGT_DTYPE_I32  ? 4
                      : dtype == MGT_DTYPE_F16 || dtype == MGT_DTYPE_BF16 ? 2
                                                                          : 1;
  return std::memcmp(expected, static_cast<const unsigned char*>(buffer) + i * size, size) == 0;
}

}  // namespace megatron::test
