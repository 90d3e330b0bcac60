// An element-wise chain: instructions over input tensors, scalars, numbers and earlier results.
// docs/ops.md gives the text form that `fused` carries.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "megatron/device.hpp"

namespace megatron::cpu {

enum class ElementOp : uint8_t {
  add,
  sub,
  mul,
  div,
  pow,
  maximum,
  minimum,
  greater,  // 1 where a > b, else 0
  neg,
  square,
  sqrt,
  rsqrt,
  exp,
  log,
  tanh,
  gelu,
  gelu_grad,  // of (x, dy)
  dropout,
};

struct ElementOpName {
  std::string_view name;
  ElementOp op;
  int arity;
};
const ElementOpName* find_element_op(std::string_view name);

struct Operand {
  enum class Kind : uint8_t { input, scalar, result, number };
  Kind kind = Kind::number;
  uint32_t index = 0;  // of the input, scalar or instruction
  double number = 0;
};

struct Instruction {
  ElementOp op = ElementOp::add;
  Operand a, b;       // b only for binary ops
  double p = 0;       // dropout
  uint64_t site = 0;  // dropout
};

struct Expression {
  std::vector<Instruction> instructions;
  std::vector<Operand> outputs;
};

int arity(ElementOp op);
// For each instruction, whether it reads scalars and numbers alone. The host would evaluate it in
// double, so its result is not rounded to float.
std::vector<bool> is_number(const Expression& expression);

// Throws StatusError with the place of the mistake; checks every index.
Expression parse_expression(std::string_view text, size_t inputs, size_t scalars);
// The chain of `fused`, or the one instruction of an element-wise op.
Expression expression_of(const KernelDesc& desc);

// One instruction in double, the meaning of each op; `keep` is dropout's factor.
double evaluate(ElementOp op, double a, double b, double keep);

}  // namespace megatron::cpu
