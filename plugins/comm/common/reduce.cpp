// Compiled once per instruction set by Highway.
#include "reduce.hpp"

#include <bit>
#include <cstring>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "reduce.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace megatron::comm {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How elements of a type are read into, and written from, the vectors that are added up.
template <class T>
struct Plain {
  using Element = T;
  using D = hn::ScalableTag<T>;
  static HWY_INLINE hn::Vec<D> load(const std::byte* at, size_t i) {
    return hn::LoadU(D(), reinterpret_cast<const T*>(at) + i);
  }
  static HWY_INLINE void store(hn::Vec<D> v, std::byte* at, size_t i) {
    hn::StoreU(v, D(), reinterpret_cast<T*>(at) + i);
  }
};

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

struct Half {
  using Element = uint16_t;
  using D = DF;
  static HWY_INLINE VF load(const std::byte* at, size_t i) {
    const hn::Rebind<uint16_t, DF> d16;
    const hn::Rebind<hwy::float16_t, DF> dh;
    return hn::PromoteTo(DF(), hn::BitCast(dh, hn::LoadU(d16, cast(at) + i)));
  }
  static HWY_INLINE void store(VF v, std::byte* at, size_t i) {
    const hn::Rebind<uint16_t, DF> d16;
    const hn::Rebind<hwy::float16_t, DF> dh;
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(dh, v)), d16, reinterpret_cast<uint16_t*>(at) + i);
  }
  static HWY_INLINE const uint16_t* cast(const std::byte* p) {
    return reinterpret_cast<const uint16_t*>(p);
  }
};

struct BrainFloat {
  using Element = uint16_t;
  using D = DF;
  static HWY_INLINE VF load(const std::byte* at, size_t i) {
    const hn::Rebind<uint16_t, DF> d16;
    const hn::RebindToUnsigned<DF> d32;
    const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, Half::cast(at) + i));
    return hn::BitCast(DF(), hn::ShiftLeft<16>(bits));
  }
  // To nearest, ties to even. A NaN keeps its upper bits and stays one.
  static HWY_INLINE void store(VF v, std::byte* at, size_t i) {
    const hn::Rebind<uint16_t, DF> d16;
    const hn::RebindToUnsigned<DF> d32;
    const hn::RebindToSigned<DF> di;
    const auto bits = hn::BitCast(d32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(d32, 0x400000));
    const auto chosen = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
    const auto upper = hn::BitCast(di, hn::ShiftRight<16>(chosen));
    hn::StoreU(hn::DemoteTo(d16, upper), d16, reinterpret_cast<uint16_t*>(at) + i);
  }
};

struct Sum {
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct Max {  // a NaN on either side wins
  template <class D, class V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, hn::Max(a, b)));
    } else {
      return hn::Max(a, b);
    }
  }
};

template <class In, class Op>
HWY_INLINE hn::Vec<typename In::D> in_order(const std::byte* const* sources, size_t n, size_t i) {
  auto sum = In::load(sources[0], i);
  for (size_t r = 1; r < n; ++r) {
    sum = Op::apply(typename In::D(), sum, In::load(sources[r], i));
  }
  return sum;
}

// Neighbours first, like counting in binary: after source r, the stack holds one partial sum for
// every 1 bit of r + 1. What is left of a count that is no power of two folds from the right.
template <class In, class Op>
HWY_INLINE hn::Vec<typename In::D> as_tree(const std::byte* const* sources, size_t n, size_t i) {
  const typename In::D d;
  hn::Vec<typename In::D> stack[32];
  stack[0] = In::load(sources[0], i);
  size_t depth = 1;
  for (size_t r = 1; r < n; ++r) {
    stack[depth++] = In::load(sources[r], i);
    for (int merge = std::countr_one(r); merge > 0; --merge, --depth) {
      stack[depth - 2] = Op::apply(d, stack[depth - 2], stack[depth - 1]);
    }
  }
  for (; depth > 1; --depth) stack[depth - 2] = Op::apply(d, stack[depth - 2], stack[depth - 1]);
  return stack[0];
}

template <class In, class Out, class Op, bool kTree>
HWY_INLINE void vectors(const std::byte* const* sources, size_t n, std::byte* const* targets,
                        size_t m, size_t begin, size_t end) {
  const size_t lanes = hn::Lanes(typename In::D());
  size_t i = begin;
  if constexpr (!kTree) {  // four at a time: independent chains
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      const auto a = in_order<In, Op>(sources, n, i);
      const auto b = in_order<In, Op>(sources, n, i + lanes);
      const auto c = in_order<In, Op>(sources, n, i + 2 * lanes);
      const auto e = in_order<In, Op>(sources, n, i + 3 * lanes);
      for (size_t t = 0; t < m; ++t) {
        Out::store(a, targets[t], i);
        Out::store(b, targets[t], i + lanes);
        Out::store(c, targets[t], i + 2 * lanes);
        Out::store(e, targets[t], i + 3 * lanes);
      }
    }
  }
  for (; i < end; i += lanes) {
    const auto v = kTree ? as_tree<In, Op>(sources, n, i) : in_order<In, Op>(sources, n, i);
    for (size_t t = 0; t < m; ++t) Out::store(v, targets[t], i);
  }
}

template <class In, class Out, class Op, bool kTree>
void run(const std::byte* const* sources, size_t n, std::byte* const* targets, size_t m,
         size_t count) {
  using From = typename In::Element;
  using To = typename Out::Element;
  const size_t lanes = hn::Lanes(typename In::D());
  const size_t whole = count - count % lanes;
  vectors<In, Out, Op, kTree>(sources, n, targets, m, 0, whole);
  if (whole == count) return;
  // The rest, padded to one vector, by the same instructions: the same bits.
  constexpr size_t kLanes = hn::MaxLanes(typename In::D());
  constexpr size_t kRow = kLanes * sizeof(From);
  const size_t rest = count - whole;
  std::vector<std::byte> padded(n * kRow);
  std::vector<const std::byte*> rows(n);
  for (size_t r = 0; r < n; ++r) {
    rows[r] = padded.data() + r * kRow;
    std::memcpy(padded.data() + r * kRow, sources[r] + whole * sizeof(From), rest * sizeof(From));
  }
  To out[kLanes];
  auto* out_at = reinterpret_cast<std::byte*>(out);
  vectors<In, Out, Op, kTree>(rows.data(), n, &out_at, 1, 0, lanes);
  for (size_t t = 0; t < m; ++t) {
    std::memcpy(targets[t] + whole * sizeof(To), out, rest * sizeof(To));
  }
}

using Function = void (*)(const std::byte* const*, size_t, std::byte* const*, size_t, size_t);

template <class In, class Out>
Function choose(mgt_reduce_op op, bool tree) {
  if (op == MGT_REDUCE_SUM) return tree ? &run<In, Out, Sum, true> : &run<In, Out, Sum, false>;
  if (op == MGT_REDUCE_MAX) return &run<In, Out, Max, false>;  // any order gives the same
  return nullptr;
}

Function find(const Reduction& r) {
  if (r.from == r.to) {
    switch (r.from) {
      case MGT_DTYPE_F32:
        return choose<Plain<float>, Plain<float>>(r.op, r.tree);
      case MGT_DTYPE_F64:
        return choose<Plain<double>, Plain<double>>(r.op, r.tree);
      case MGT_DTYPE_F16:
        return choose<Half, Half>(r.op, r.tree);
      case MGT_DTYPE_BF16:
        return choose<BrainFloat, BrainFloat>(r.op, r.tree);
      case MGT_DTYPE_I32:
        return choose<Plain<int32_t>, Plain<int32_t>>(r.op, r.tree);
      case MGT_DTYPE_I64:
        return choose<Plain<int64_t>, Plain<int64_t>>(r.op, r.tree);
      default:
        return nullptr;
    }
  }
  if (r.from == MGT_DTYPE_F16 && r.to == MGT_DTYPE_F32)
    return choose<Half, Plain<float>>(r.op, r.tree);
  if (r.from == MGT_DTYPE_BF16 && r.to == MGT_DTYPE_F32)
    return choose<BrainFloat, Plain<float>>(r.op, r.tree);
  if (r.from == MGT_DTYPE_F32 && r.to == MGT_DTYPE_F16)
    return choose<Plain<float>, Half>(r.op, r.tree);
  if (r.from == MGT_DTYPE_F32 && r.to == MGT_DTYPE_BF16)
    return choose<Plain<float>, BrainFloat>(r.op, r.tree);
  return nullptr;
}

void copy_vectors(std::byte* target, const std::byte* source, size_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  auto* to = reinterpret_cast<uint8_t*>(target);
  const auto* from = reinterpret_cast<const uint8_t*>(source);
  size_t i = 0;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto a = hn::LoadU(d, from + i);
    const auto b = hn::LoadU(d, from + i + lanes);
    const auto c = hn::LoadU(d, from + i + 2 * lanes);
    const auto e = hn::LoadU(d, from + i + 3 * lanes);
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes);
    hn::StoreU(c, d, to + i + 2 * lanes);
    hn::StoreU(e, d, to + i + 3 * lanes);
  }
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace megatron::comm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::comm {
HWY_EXPORT(find);
HWY_EXPORT(copy_vectors);

bool can_reduce(const Reduction& reduction) {
  return HWY_DYNAMIC_DISPATCH(find)(reduction) != nullptr;
}

void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, uint64_t count) {
  if (count == 0 || targets.empty()) return;
  HWY_DYNAMIC_DISPATCH(find)
  (reduction)(sources.data(), sources.size(), targets.data(), targets.size(), count);
}

void copy_bytes(void* target, const void* source, size_t bytes) {
  // Below, memcpy uses vectors itself; from 1 MiB on it streams past the cache.
  constexpr size_t kSlowFrom = 2048, kSlowTo = size_t{1} << 20;
  const size_t distance =
      (reinterpret_cast<uintptr_t>(target) - reinterpret_cast<uintptr_t>(source)) % 4096;
  if (bytes >= kSlowFrom && bytes < kSlowTo && distance != 0 && distance < 64) {
    HWY_DYNAMIC_DISPATCH(copy_vectors)
    (static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes);
  } else if (bytes > 0) {
    std::memcpy(target, source, bytes);
  }
}

}  // namespace megatron::comm
#endif
