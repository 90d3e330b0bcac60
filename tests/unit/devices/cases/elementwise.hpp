// Formulas of element-wise ops and chains, one element at a time.
#pragma once

#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {

// Results of element e from its operands: the tensors' elements after broadcasting, then the
// scalars.
using ElementFormula = std::function<std::vector<double>(const std::vector<double>& operands,
                                                         const OpCase& c, int64_t e)>;
Formula elementwise_formula(ElementFormula f);

// 0 or 1/(1−p) for element e of the result, by its logical index; 0 on padding.
double dropout_factor(const OpCase& c, int64_t e, double p, std::string_view site);

}  // namespace megatron::cpu::testing
