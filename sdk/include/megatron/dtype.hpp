// Element types: names as they appear in the graph text and in safetensors, and sizes in bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "megatron/abi/base.h"

namespace megatron {

enum class DType : uint32_t {
  f32 = MGT_DTYPE_F32,
  f16 = MGT_DTYPE_F16,
  bf16 = MGT_DTYPE_BF16,
  f64 = MGT_DTYPE_F64,
  i8 = MGT_DTYPE_I8,
  u8 = MGT_DTYPE_U8,
  i16 = MGT_DTYPE_I16,
  u16 = MGT_DTYPE_U16,
  i32 = MGT_DTYPE_I32,
  i64 = MGT_DTYPE_I64,
  boolean = MGT_DTYPE_BOOL,
  f8_e4m3 = MGT_DTYPE_F8_E4M3,
  f8_e5m2 = MGT_DTYPE_F8_E5M2,
};

namespace detail {
struct DTypeRow {
  DType dtype;
  std::string_view name;         // graph text
  std::string_view safetensors;  // the format's own name
  size_t size;                   // bytes
};
inline constexpr DTypeRow kDTypes[] = {
    {DType::f32, "f32", "F32", 4},
    {DType::f16, "f16", "F16", 2},
    {DType::bf16, "bf16", "BF16", 2},
    {DType::f64, "f64", "F64", 8},
    {DType::i8, "i8", "I8", 1},
    {DType::u8, "u8", "U8", 1},
    {DType::i16, "i16", "I16", 2},
    {DType::u16, "u16", "U16", 2},
    {DType::i32, "i32", "I32", 4},
    {DType::i64, "i64", "I64", 8},
    {DType::boolean, "bool", "BOOL", 1},
    {DType::f8_e4m3, "f8_e4m3", "F8_E4M3", 1},
    {DType::f8_e5m2, "f8_e5m2", "F8_E5M2", 1},
};
constexpr const DTypeRow* dtype_row(DType dtype) {
  for (const auto& row : kDTypes)
    if (row.dtype == dtype) return &row;
  return nullptr;
}
}  // namespace detail

constexpr std::string_view dtype_name(DType dtype) {
  const auto* row = detail::dtype_row(dtype);
  return row ? row->name : "?";
}
constexpr std::string_view safetensors_name(DType dtype) {
  const auto* row = detail::dtype_row(dtype);
  return row ? row->safetensors : "?";
}
constexpr size_t dtype_size(DType dtype) {
  const auto* row = detail::dtype_row(dtype);
  return row ? row->size : 0;
}
constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f64 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}
constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto& row : detail::kDTypes)
    if (row.name == name || row.safetensors == name) return row.dtype;
  return std::nullopt;
}

}  // namespace megatron
