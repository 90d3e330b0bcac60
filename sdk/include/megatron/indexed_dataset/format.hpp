// Megatron's `<prefix>.bin` / `<prefix>.idx`: tokens of all sequences back to back, and where each
// sequence and each document starts. Little-endian, no padding, so the arrays are not aligned.
//
//   bytes  .idx field
//       9  "MMIDIDX\0\0"
//       8  u64 version = 1
//       1  u8 dtype code
//       8  u64 S, the number of sequences
//       8  u64 D, the number of documents + 1
//     4*S  i32 lengths in tokens
//     8*S  i64 byte offsets in .bin, the exclusive running sum of length * item size
//     8*D  i64 first sequence of each document; the first is 0, the last is S
//       S  i8 mode of each sequence; multimodal only, and no flag in the header says so
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "megatron/dtype.hpp"

namespace megatron {

static_assert(std::endian::native == std::endian::little,
              "the format is read and written in place");

namespace detail {
inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr size_t kIndexVersionOffset = 9;
inline constexpr size_t kIndexDTypeOffset = 17;
inline constexpr size_t kIndexSequencesOffset = 18;
inline constexpr size_t kIndexDocumentsOffset = 26;
inline constexpr size_t kIndexHeaderSize = 34;

// The position is the code; 6 is double and 7 is float, in this order.
inline constexpr std::array<std::optional<DType>, 9> kIndexDTypes{
    std::nullopt, DType::u8,  DType::i8,  DType::i16, DType::i32,
    DType::i64,   DType::f64, DType::f32, DType::u16};

constexpr std::optional<DType> dtype_of_index_code(uint8_t code) {
  return code < kIndexDTypes.size() ? kIndexDTypes[code] : std::nullopt;
}
constexpr std::optional<uint8_t> index_code_of_dtype(DType dtype) {
  for (uint8_t code = 1; code < kIndexDTypes.size(); ++code)
    if (kIndexDTypes[code] == dtype) return code;
  return std::nullopt;
}
}  // namespace detail

// The type that Megatron's preprocessing stores ids of a vocabulary in (DType.optimal_dtype).
constexpr DType optimal_token_dtype(int64_t vocab_size) {
  return vocab_size < 65500 ? DType::u16 : DType::i32;
}

}  // namespace megatron
