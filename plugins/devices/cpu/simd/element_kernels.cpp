#include "simd/element_kernels.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/element_kernels.cpp"
#include <hwy/foreach_target.h>
//
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace megatron::cpu {
namespace HWY_NAMESPACE {
namespace {

struct Add {
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Sub {
  HWY_INLINE V operator()(V a, V b) const { return hn::Sub(a, b); }
};
struct Mul {
  HWY_INLINE V operator()(V a, V b) const { return hn::Mul(a, b); }
};
struct Div {
  HWY_INLINE V operator()(V a, V b) const { return hn::Div(a, b); }
};
struct Maximum {
  HWY_INLINE V operator()(V a, V b) const { return max_or_nan(a, b); }
};
struct Minimum {
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::Lt(a, b)), a, b);
  }
};
struct Greater {
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElseZero(hn::Gt(a, b), constant(1.0f));
  }
};
struct GeluGrad {
  HWY_INLINE V operator()(V x, V dy) const { return gelu_grad(x, dy); }
};
struct Neg {
  HWY_INLINE V operator()(V a, V) const { return hn::Neg(a); }
};
struct Square {
  HWY_INLINE V operator()(V a, V) const { return hn::Mul(a, a); }
};
struct Sqrt {
  HWY_INLINE V operator()(V a, V) const { return hn::Sqrt(a); }
};
struct Rsqrt {
  HWY_INLINE V operator()(V a, V) const { return hn::Div(constant(1.0f), hn::Sqrt(a)); }
};
struct Exp {
  HWY_INLINE V operator()(V a, V) const { return exp(a); }
};
struct Log {
  HWY_INLINE V operator()(V a, V) const { return log(a); }
};
struct Tanh {
  HWY_INLINE V operator()(V a, V) const { return tanh(a); }
};
struct Gelu {
  HWY_INLINE V operator()(V a, V) const { return gelu(a); }
};

template <class Op, bool kBinary, Uniform kUniform>
void apply(const float* a, const float* b, float* out, int64_t n) {
  const D d;
  const Op op;
  const int64_t step = lanes();
  const V ua = kUniform == Uniform::a ? constant(*a) : hn::Zero(d);
  const V ub = kUniform == Uniform::b ? constant(*b) : hn::Zero(d);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const V va = kUniform == Uniform::a ? ua : hn::LoadU(d, a + i);
    const V vb = kUniform == Uniform::b || !kBinary ? ub : hn::LoadU(d, b + i);
    hn::StoreU(op(va, vb), d, out + i);
  }
  if (i == n) return;
  const V va = kUniform == Uniform::a ? ua : load_tail(a + i, n - i);
  const V vb = kUniform == Uniform::b || !kBinary ? ub : load_tail(b + i, n - i);
  store_tail(op(va, vb), out + i, n - i);
}

// Rare in training programs (the learning rate's powers are scalars), so plainly from the C
// library.
template <Uniform kUniform>
void power(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::pow(a[kUniform == Uniform::a ? 0 : i], b[kUniform == Uniform::b ? 0 : i]);
  }
}

template <class Op>
ElementFn binary(Uniform uniform) {
  switch (uniform) {
    case Uniform::a:
      return apply<Op, true, Uniform::a>;
    case Uniform::b:
      return apply<Op, true, Uniform::b>;
    default:
      return apply<Op, true, Uniform::none>;
  }
}
template <class Op>
ElementFn unary(Uniform uniform) {
  return uniform == Uniform::a ? apply<Op, false, Uniform::a> : apply<Op, false, Uniform::none>;
}

ElementFn find(ElementOp op, Uniform uniform) {
  switch (op) {
    case ElementOp::add:
      return binary<Add>(uniform);
    case ElementOp::sub:
      return binary<Sub>(uniform);
    case ElementOp::mul:
    case ElementOp::dropout:
      return binary<Mul>(uniform);
    case ElementOp::div:
      return binary<Div>(uniform);
    case ElementOp::pow:
      return uniform == Uniform::a   ? power<Uniform::a>
             : uniform == Uniform::b ? power<Uniform::b>
                                     : power<Uniform::none>;
    case ElementOp::maximum:
      return binary<Maximum>(uniform);
    case ElementOp::minimum:
      return binary<Minimum>(uniform);
    case ElementOp::greater:
      return binary<Greater>(uniform);
    case ElementOp::neg:
      return unary<Neg>(uniform);
    case ElementOp::square:
      return unary<Square>(uniform);
    case ElementOp::sqrt:
      return unary<Sqrt>(uniform);
    case ElementOp::rsqrt:
      return unary<Rsqrt>(uniform);
    case ElementOp::exp:
      return unary<Exp>(uniform);
    case ElementOp::log:
      return unary<Log>(uniform);
    case ElementOp::tanh:
      return unary<Tanh>(uniform);
    case ElementOp::gelu:
      return unary<Gelu>(uniform);
    case ElementOp::gelu_grad:
      return binary<GeluGrad>(uniform);
  }
  return nullptr;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace megatron::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace megatron::cpu {
HWY_EXPORT(find);

ElementFn element_kernel(ElementOp op, Uniform uniform) {
  return HWY_DYNAMIC_DISPATCH(find)(op, uniform);
}

}  // namespace megatron::cpu
#endif
