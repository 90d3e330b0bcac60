// What a kernel is prepared for, as owned C++ values: an op's name and attributes, the tensors that
// it reads and writes, and which global indices their dimensions hold. Both sides of the boundary
// use these types: the host writes a KernelDesc and passes AbiKernelDesc(desc).get(), the device
// reads it back with KernelDesc::read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "megatron/abi/device.h"
#include "megatron/dtype.hpp"
#include "megatron/index_map.hpp"
#include "megatron/status.hpp"

namespace megatron {

// A dense row-major local tensor.
struct TensorDesc {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;   // local sizes
  std::vector<IndexMap> maps;  // one a dimension

  TensorDesc() = default;
  // Every dimension held whole.
  TensorDesc(DType dtype_, std::vector<int64_t> dims_) : dtype(dtype_), dims(std::move(dims_)) {
    for (const int64_t size : dims) maps.push_back(IndexMap::identity(size));
  }
  TensorDesc(DType dtype_, std::vector<IndexMap> maps_) : dtype(dtype_), maps(std::move(maps_)) {
    for (const auto& map : maps) dims.push_back(map.local_size());
  }

  size_t rank() const { return dims.size(); }
  int64_t elements() const { return product(0, rank()); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtype_size(dtype)); }
  // Product of the sizes of dimensions [begin, end).
  int64_t product(size_t begin, size_t end) const {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                           dims.begin() + static_cast<std::ptrdiff_t>(end), int64_t{1},
                           std::multiplies<>());
  }
  // Position of a local index in the logical tensor; -1 for padding.
  int64_t global_index(size_t dim, int64_t local) const { return maps[dim].global(local); }
  // "f32[4, 6{2+6 of 11}]": a dimension held in part shows its runs.
  std::string to_string() const {
    std::string out = text(dtype_name(dtype), "[");
    for (size_t d = 0; d < rank(); ++d) {
      out += text(d == 0 ? "" : ", ", dims[d]);
      if (maps[d].is_identity()) continue;
      out += '{';
      for (size_t i = 0; i < maps[d].pieces().size(); ++i) {
        const auto& piece = maps[d].pieces()[i];
        out += text(i == 0 ? "" : ", ", piece.global_begin, "+", piece.size);
      }
      out += text(" of ", maps[d].global_size(), "}");
    }
    return out + "]";
  }
};

using KernelAttr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using KernelAttrs = std::map<std::string, KernelAttr, std::less<>>;

struct KernelDesc {
  std::string op;
  KernelAttrs attrs;
  std::vector<TensorDesc> inputs;  // tensors only; scalars are passed by value at launch
  std::vector<TensorDesc> outputs;
  uint64_t scalar_count = 0;
  // Bit o: output o adds to what its memory holds when the last scalar of the launch is non-zero,
  // and overwrites it when that is zero.
  uint64_t accumulate_mask = 0;

  bool accumulates(size_t output) const { return ((accumulate_mask >> output) & 1) != 0; }

  int64_t integer(std::string_view name, int64_t fallback) const {
    return attr<int64_t>(name, fallback);
  }
  double number(std::string_view name, double fallback) const {
    const auto it = attrs.find(name);
    if (it == attrs.end()) return fallback;
    if (const auto* i = std::get_if<int64_t>(&it->second)) return static_cast<double>(*i);
    return attr<double>(name, fallback);
  }
  std::string string(std::string_view name) const { return attr<std::string>(name, {}); }
  int64_t required_integer(std::string_view name) const {
    if (!attrs.contains(name)) throw StatusError(missing(name));
    return integer(name, 0);
  }

  static KernelDesc read(const mgt_kernel_desc& abi);

 private:
  Status missing(std::string_view name) const {
    return invalid_argument(text("op '", op, "' has no attribute '", name, "'"),
                            "the kernel cannot be prepared without it",
                            "pass the attribute that docs/ops.md lists for the op");
  }
  template <class T>
  T attr(std::string_view name, T fallback) const {
    const auto it = attrs.find(name);
    if (it == attrs.end()) return fallback;
    if (const auto* value = std::get_if<T>(&it->second)) return *value;
    throw StatusError(invalid_argument(
        text("attribute '", name, "' of op '", op, "' has the wrong type"),
        "it is read as another kind of value", "pass it as docs/ops.md describes"));
  }
};

namespace detail {
inline TensorDesc read_tensor(const mgt_tensor_desc& abi) {
  TensorDesc out;
  out.dtype = static_cast<DType>(abi.dtype);
  for (uint32_t d = 0; d < abi.rank; ++d) {
    const auto& map = abi.maps[d];
    out.dims.push_back(abi.dims[d]);
    out.maps.push_back(map.piece_count == 0 ? IndexMap::identity(abi.dims[d])
                                            : IndexMap(map.global_size, abi.dims[d],
                                                       {map.pieces, map.pieces + map.piece_count}));
  }
  return out;
}

inline KernelAttr read_attr(const mgt_attr& abi) {
  switch (abi.type) {
    case MGT_ATTR_INT:
      return abi.i;
    case MGT_ATTR_FLOAT:
      return abi.f;
    case MGT_ATTR_STRING:
      return std::string(from_abi(abi.s));
    case MGT_ATTR_INTS:
      return std::vector<int64_t>(abi.ints, abi.ints + abi.int_count);
    default:
      throw StatusError(Status::error(
          Code::unimplemented,
          text("attribute '", from_abi(abi.name), "' has the unknown type ", abi.type),
          "the host is newer than this device", "build both from the same sdk"));
  }
}
}  // namespace detail

inline KernelDesc KernelDesc::read(const mgt_kernel_desc& abi) {
  KernelDesc out;
  out.op = from_abi(abi.op);
  for (uint64_t i = 0; i < abi.attr_count; ++i) {
    out.attrs.emplace(from_abi(abi.attrs[i].name), detail::read_attr(abi.attrs[i]));
  }
  for (uint64_t i = 0; i < abi.input_count; ++i) {
    out.inputs.push_back(detail::read_tensor(abi.inputs[i]));
  }
  for (uint64_t i = 0; i < abi.output_count; ++i) {
    out.outputs.push_back(detail::read_tensor(abi.outputs[i]));
  }
  out.scalar_count = abi.scalar_count;
  out.accumulate_mask = abi.accumulate_mask;
  return out;
}

// The C form of a KernelDesc, which must outlive it.
class AbiKernelDesc {
 public:
  explicit AbiKernelDesc(const KernelDesc& desc) {
    for (const auto& [name, value] : desc.attrs) attrs_.push_back(attr(name, value));
    for (const auto& t : desc.inputs) tensors_.push_back(tensor(t));
    for (const auto& t : desc.outputs) tensors_.push_back(tensor(t));
    MGT_INIT(&abi_);
    abi_.op = to_abi(desc.op);
    abi_.attrs = attrs_.data();
    abi_.attr_count = attrs_.size();
    abi_.inputs = tensors_.data();
    abi_.input_count = desc.inputs.size();
    abi_.outputs = tensors_.data() + desc.inputs.size();
    abi_.output_count = desc.outputs.size();
    abi_.scalar_count = desc.scalar_count;
    abi_.accumulate_mask = desc.accumulate_mask;
  }
  AbiKernelDesc(const AbiKernelDesc&) = delete;
  AbiKernelDesc& operator=(const AbiKernelDesc&) = delete;

  const mgt_kernel_desc* get() const { return &abi_; }

 private:
  static mgt_attr attr(const std::string& name, const KernelAttr& value) {
    mgt_attr out{};
    out.name = to_abi(name);
    if (const auto* i = std::get_if<int64_t>(&value)) {
      out.type = MGT_ATTR_INT;
      out.i = *i;
    } else if (const auto* f = std::get_if<double>(&value)) {
      out.type = MGT_ATTR_FLOAT;
      out.f = *f;
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      out.type = MGT_ATTR_STRING;
      out.s = to_abi(*s);
    } else {
      const auto& ints = std::get<std::vector<int64_t>>(value);
      out.type = MGT_ATTR_INTS;
      out.ints = ints.data();
      out.int_count = ints.size();
    }
    return out;
  }
  static mgt_tensor_desc tensor(const TensorDesc& t) {
    MGT_CHECK(t.rank() <= MGT_MAX_RANK, "rank");
    mgt_tensor_desc out;
    MGT_INIT(&out);
    out.dtype = static_cast<mgt_dtype>(t.dtype);
    out.rank = static_cast<uint32_t>(t.rank());
    for (size_t d = 0; d < t.rank(); ++d) {
      out.dims[d] = t.dims[d];
      out.maps[d].global_size = t.maps[d].global_size();
      // A dimension of which nothing is held keeps its (empty) piece: zero pieces mean the
      // identity.
      if (t.maps[d].is_identity()) continue;
      static constexpr mgt_index_piece kNothing{0, 0, 0};
      const auto& pieces = t.maps[d].pieces();
      out.maps[d].pieces = pieces.empty() ? &kNothing : pieces.data();
      out.maps[d].piece_count = pieces.empty() ? 1 : pieces.size();
    }
    return out;
  }

  std::vector<mgt_attr> attrs_;
  std::vector<mgt_tensor_desc> tensors_;
  mgt_kernel_desc abi_;
};

}  // namespace megatron
