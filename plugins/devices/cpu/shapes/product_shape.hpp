// The three products of `linear` with their dimension groups flattened to m, n, k.
#pragma once

#include "shapes/operands.hpp"

namespace megatron::cpu {

struct ProductShape {
  int64_t m, n, k;
};

// x[MK] w[NK] -> y[MN]
inline ProductShape linear_shape(const KernelDesc& desc) {
  expect_operands(desc, 2, 1);
  const auto& x = desc.inputs[0];
  const auto& w = desc.inputs[1];
  const auto c = static_cast<size_t>(desc.required_integer("contract"));
  expect(c <= x.rank() && c <= w.rank(), desc, text("'contract' = ", c, " exceeds a rank"));
  const ProductShape p{x.product(0, x.rank() - c), w.product(0, w.rank() - c),
                       x.product(x.rank() - c, x.rank())};
  expect(w.product(w.rank() - c, w.rank()) == p.k && desc.outputs[0].elements() == p.m * p.n, desc,
         "the sizes do not fit x[MK] w[NK] -> [MN]");
  return p;
}

// dy[MN] w[NK] -> dx[MK]
inline ProductShape linear_dgrad_shape(const KernelDesc& desc) {
  expect_operands(desc, 2, 1);
  const auto& dy = desc.inputs[0];
  const auto& w = desc.inputs[1];
  const auto c = static_cast<size_t>(desc.required_integer("contract"));
  expect(c <= dy.rank() && c <= w.rank(), desc, text("'contract' = ", c, " exceeds a rank"));
  const ProductShape p{dy.product(0, dy.rank() - c), dy.product(dy.rank() - c, dy.rank()),
                       w.product(c, w.rank())};
  expect(w.product(0, c) == p.n && desc.outputs[0].elements() == p.m * p.k, desc,
         "the sizes do not fit dy[MN] w[NK] -> [MK]");
  return p;
}

// dy[MN] x[MK] -> dw[NK]
inline ProductShape linear_wgrad_shape(const KernelDesc& desc) {
  expect_operands(desc, 2, 1);
  const auto& dy = desc.inputs[0];
  const auto& x = desc.inputs[1];
  const auto c = static_cast<size_t>(desc.required_integer("contract"));
  expect(c <= dy.rank() && c <= x.rank(), desc, text("'contract' = ", c, " exceeds a rank"));
  const ProductShape p{dy.product(0, c), dy.product(c, dy.rank()), x.product(c, x.rank())};
  expect(x.product(0, c) == p.m && desc.outputs[0].elements() == p.n * p.k, desc,
         "the sizes do not fit dy[MN] x[MK] -> [NK]");
  return p;
}

}  // namespace megatron::cpu
