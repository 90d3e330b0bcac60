// Operands align at their last dimensions; missing leading ones and rank 0 broadcast. So element e
// of the result reads element e mod period of an operand with `period` elements.
#pragma once

#include <algorithm>
#include <vector>

#include "shapes/operands.hpp"

namespace megatron::cpu {

// Period of every input.
inline std::vector<int64_t> broadcast_periods(const KernelDesc& desc) {
  expect(!desc.outputs.empty(), desc, "it has no output");
  const auto& result = desc.outputs[0];
  for (const auto& out : desc.outputs) {
    expect(out.dims == result.dims, desc, "its results differ in shape");
  }
  expect(
      desc.inputs.empty() ||
          std::ranges::any_of(desc.inputs, [&](const auto& in) { return in.dims == result.dims; }),
      desc, "no operand has the shape of the result");
  std::vector<int64_t> periods;
  for (const auto& in : desc.inputs) {
    expect(in.rank() <= result.rank() &&
               std::equal(in.dims.rbegin(), in.dims.rend(), result.dims.rbegin()),
           desc, text(in.to_string(), " does not align with the last dimensions of the result"));
    periods.push_back(in.elements());
  }
  return periods;
}

}  // namespace megatron::cpu
