// The plain implementation of every op: simple loops, sums in double, any index map. They are what
// the vectorised implementations (and other devices) are compared with, so they are written to be
// read.
#pragma once

#include "implementation.hpp"

namespace megatron::cpu::reference {

inline constexpr std::string_view kName = "reference";

#define MGT_REFERENCE(op) \
  std::unique_ptr<Kernel> op(const KernelDesc& desc, const Host& host, std::string& reason)
MGT_REFERENCE(linear);
MGT_REFERENCE(linear_dgrad);
MGT_REFERENCE(linear_wgrad);
MGT_REFERENCE(embedding);
MGT_REFERENCE(embedding_grad);
MGT_REFERENCE(layer_norm);
MGT_REFERENCE(layer_norm_grad);
MGT_REFERENCE(layer_norm_param_grad);
MGT_REFERENCE(attention);
MGT_REFERENCE(attention_grad);
MGT_REFERENCE(attention_merge);
MGT_REFERENCE(linear_cross_entropy);
MGT_REFERENCE(linear_cross_entropy_grad);
MGT_REFERENCE(linear_cross_entropy_train);
MGT_REFERENCE(sum);
MGT_REFERENCE(sum_squares);
MGT_REFERENCE(expand);
MGT_REFERENCE(pack);
MGT_REFERENCE(elementwise);  // fused, and each element-wise op alone
MGT_REFERENCE(movement);  // slice, stack, unstack, flatten, unflatten, flat_slice, copy, zeros_like
#undef MGT_REFERENCE

}  // namespace megatron::cpu::reference
