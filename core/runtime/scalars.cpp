#include "runtime/scalars.hpp"

#include <algorithm>
#include <cmath>

namespace megatron::runtime {

Result<double> evaluate_scalar(std::string_view op, std::span<const double> x) {
  struct Row {
    std::string_view name;
    double (*apply)(std::span<const double>);
  };
  using Operands = std::span<const double>;
  static constexpr Row kRows[] = {
      {"add", [](Operands v) { return v[0] + v[1]; }},
      {"sub", [](Operands v) { return v[0] - v[1]; }},
      {"mul", [](Operands v) { return v[0] * v[1]; }},
      {"div", [](Operands v) { return v[0] / v[1]; }},
      {"pow", [](Operands v) { return std::pow(v[0], v[1]); }},
      {"maximum", [](Operands v) { return std::max(v[0], v[1]); }},
      {"minimum", [](Operands v) { return std::min(v[0], v[1]); }},
      {"greater", [](Operands v) { return v[0] > v[1] ? 1.0 : 0.0; }},
      {"neg", [](Operands v) { return -v[0]; }},
      {"square", [](Operands v) { return v[0] * v[0]; }},
      {"sqrt", [](Operands v) { return std::sqrt(v[0]); }},
      {"rsqrt", [](Operands v) { return 1 / std::sqrt(v[0]); }},
      {"exp", [](Operands v) { return std::exp(v[0]); }},
      {"log", [](Operands v) { return std::log(v[0]); }},
      {"tanh", [](Operands v) { return std::tanh(v[0]); }},
  };
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == op; });
  if (row == std::end(kRows)) {
    return Status::error(Code::unimplemented, text("op '", op, "' cannot take numbers alone"),
                         "the host evaluates them and has no form of it", "apply it to a tensor");
  }
  return row->apply(x);
}

}  // namespace megatron::runtime
