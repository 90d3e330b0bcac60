// Reads the text form of an element-wise chain:
//   t0 = add(i0, i1); t1 = dropout(t0) {p = 0.1, site = "h.0"}; out t0 t1
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "elementwise/expression.hpp"

namespace megatron::cpu {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, size_t inputs, size_t scalars)
      : text_(text), inputs_(inputs), scalars_(scalars) {}
  Expression parse();

 private:
  [[noreturn]] void fail(std::string_view cause) const;
  void skip_spaces();
  bool take(char c);
  void demand(char c);
  std::string_view word();  // letters, digits, '_'
  double number();
  std::string quoted();
  Operand operand();
  void instruction();
  void attributes(Instruction& in);
  void outputs();

  std::string_view text_;
  size_t inputs_, scalars_;
  size_t at_ = 0;
  Expression out_;
};

}  // namespace megatron::cpu
