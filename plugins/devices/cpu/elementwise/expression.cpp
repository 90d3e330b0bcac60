#include "elementwise/expression.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "elementwise/expression_parser.hpp"
#include "megatron/philox.hpp"
#include "shapes/operands.hpp"

namespace megatron::cpu {
namespace {

constexpr ElementOpName kNames[] = {
    {"add", ElementOp::add, 2},
    {"sub", ElementOp::sub, 2},
    {"mul", ElementOp::mul, 2},
    {"div", ElementOp::div, 2},
    {"pow", ElementOp::pow, 2},
    {"maximum", ElementOp::maximum, 2},
    {"minimum", ElementOp::minimum, 2},
    {"greater", ElementOp::greater, 2},
    {"neg", ElementOp::neg, 1},
    {"square", ElementOp::square, 1},
    {"sqrt", ElementOp::sqrt, 1},
    {"rsqrt", ElementOp::rsqrt, 1},
    {"exp", ElementOp::exp, 1},
    {"log", ElementOp::log, 1},
    {"tanh", ElementOp::tanh, 1},
    {"gelu", ElementOp::gelu, 1},
    {"gelu_grad", ElementOp::gelu_grad, 2},
    {"dropout", ElementOp::dropout, 1},
};

constexpr double kGeluCubic = 0.044715;
const double kGeluScale = std::sqrt(2.0 / std::numbers::pi);

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
}

bool commutes(ElementOp op) {
  return op == ElementOp::add || op == ElementOp::mul || op == ElementOp::maximum ||
         op == ElementOp::minimum;
}

// A single op takes its tensors, then its scalars. Where both kinds are present and their order
// matters, the description cannot say it: such an op must come as `fused`.
Expression single(const KernelDesc& desc, const ElementOpName& row) {
  const size_t tensors = desc.inputs.size();
  // A gradient accumulator's flag is not an operand.
  const size_t scalars = desc.scalar_count - (desc.accumulate_mask != 0 ? 1 : 0);
  expect(tensors + scalars == static_cast<size_t>(row.arity), desc,
         text("it has ", tensors + scalars, " operands and the op takes ", row.arity));
  expect(scalars == 0 || tensors == 0 || commutes(row.op), desc,
         "which operand is the scalar cannot be told; pass the op as 'fused' with an expression");
  Expression out;
  Instruction in;
  in.op = row.op;
  Operand* operands[] = {&in.a, &in.b};
  for (size_t i = 0; i < tensors + scalars; ++i) {
    const bool tensor = i < tensors;
    *operands[i] = {tensor ? Operand::Kind::input : Operand::Kind::scalar,
                    static_cast<uint32_t>(tensor ? i : i - tensors), 0};
  }
  in.p = desc.number("p", 0);
  in.site = site_of(desc.string("site"));
  expect(in.p >= 0 && in.p < 1, desc, text("dropout ", in.p, " is not in [0, 1)"));
  out.instructions.push_back(in);
  out.outputs.push_back({Operand::Kind::result, 0, 0});
  return out;
}

}  // namespace

const ElementOpName* find_element_op(std::string_view name) {
  const auto* row = std::ranges::find(kNames, name, &ElementOpName::name);
  return row == std::end(kNames) ? nullptr : row;
}

int arity(ElementOp op) { return std::ranges::find(kNames, op, &ElementOpName::op)->arity; }

std::vector<bool> is_number(const Expression& expression) {
  std::vector<bool> out;
  const auto number = [&](const Operand& o) {
    return o.kind == Operand::Kind::result ? out[o.index] : o.kind != Operand::Kind::input;
  };
  for (const Instruction& in : expression.instructions) {
    out.push_back(in.op != ElementOp::dropout && number(in.a) &&
                  (arity(in.op) < 2 || number(in.b)));
  }
  return out;
}

Expression expression_of(const KernelDesc& desc) {
  if (const auto* row = find_element_op(desc.op)) return single(desc, *row);
  const std::string chain = desc.string("expr");
  expect(!chain.empty(), desc, "the attribute 'expr' is missing or empty");
  auto out = parse_expression(chain, desc.inputs.size(), desc.scalar_count);
  expect(out.outputs.size() == desc.outputs.size(), desc,
         text("its expression gives ", out.outputs.size(), " results: ", chain));
  return out;
}

double evaluate(ElementOp op, double a, double b, double keep) {
  switch (op) {
    case ElementOp::add:
      return a + b;
    case ElementOp::sub:
      return a - b;
    case ElementOp::mul:
      return a * b;
    case ElementOp::div:
      return a / b;
    case ElementOp::pow:
      return std::pow(a, b);
    case ElementOp::maximum:  // as NaN-propagating as numpy's
      return std::isnan(a) || a > b ? a : b;
    case ElementOp::minimum:
      return std::isnan(a) || a < b ? a : b;
    case ElementOp::greater:
      return a > b ? 1 : 0;
    case ElementOp::neg:
      return -a;
    case ElementOp::square:
      return a * a;
    case ElementOp::sqrt:
      return std::sqrt(a);
    case ElementOp::rsqrt:
      return 1 / std::sqrt(a);
    case ElementOp::exp:
      return std::exp(a);
    case ElementOp::log:
      return std::log(a);
    case ElementOp::tanh:
      return std::tanh(a);
    case ElementOp::gelu:
      return gelu(a);
    case ElementOp::gelu_grad:
      return b * gelu_slope(a);
    case ElementOp::dropout:
      return a * keep;
  }
  return 0;
}

}  // namespace megatron::cpu
