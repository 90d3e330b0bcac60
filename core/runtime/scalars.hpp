// Scalars are evaluated on the host, in double precision, before a program's kernels start.
#pragma once

#include <span>
#include <string_view>

#include "megatron/status.hpp"

namespace megatron::runtime {

// One element-wise op on numbers. UNIMPLEMENTED for ops without a scalar form.
Result<double> evaluate_scalar(std::string_view op, std::span<const double> operands);

}  // namespace megatron::runtime
