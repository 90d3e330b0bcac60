// The implementations that run on SIMD kernels and the thread pool. Launching one allocates
// nothing.
#pragma once

#include "implementation.hpp"

namespace megatron::cpu::vectorised {

inline constexpr std::string_view kName = "vectorised";

#define MGT_VECTORISED(op) \
  std::unique_ptr<Kernel> op(const KernelDesc& desc, const Host& host, std::string& reason)
MGT_VECTORISED(linear);
MGT_VECTORISED(linear_dgrad);
MGT_VECTORISED(linear_wgrad);
MGT_VECTORISED(embedding);
MGT_VECTORISED(embedding_grad);
MGT_VECTORISED(layer_norm);
MGT_VECTORISED(layer_norm_grad);
MGT_VECTORISED(layer_norm_param_grad);
MGT_VECTORISED(attention);
MGT_VECTORISED(attention_grad);
MGT_VECTORISED(attention_merge);
MGT_VECTORISED(linear_cross_entropy);
MGT_VECTORISED(linear_cross_entropy_grad);
MGT_VECTORISED(linear_cross_entropy_train);
MGT_VECTORISED(sum);
MGT_VECTORISED(sum_squares);
MGT_VECTORISED(expand);
MGT_VECTORISED(elementwise);  // fused, and each element-wise op alone
MGT_VECTORISED(
    movement);  // slice, stack, unstack, flatten, unflatten, flat_slice, copy, zeros_like
#undef MGT_VECTORISED

}  // namespace megatron::cpu::vectorised
