#include "elementwise/expression_parser.hpp"

#include <cctype>

#include "megatron/philox.hpp"

namespace megatron::cpu {

Expression parse_expression(std::string_view text, size_t inputs, size_t scalars) {
  return ExpressionParser(text, inputs, scalars).parse();
}

Expression ExpressionParser::parse() {
  while (out_.outputs.empty()) {
    skip_spaces();
    const size_t start = at_;
    if (word() == "out") {
      outputs();
      break;
    }
    at_ = start;
    instruction();
    demand(';');
  }
  skip_spaces();
  if (at_ != text_.size()) fail("something follows the results");
  return std::move(out_);
}

void ExpressionParser::fail(std::string_view cause) const {
  throw StatusError(invalid_argument(
      text("op 'fused' cannot read its expression '", text_, "' at character ", at_), cause,
      "write 'tN = op(args); …; out tN …' as docs/ops.md describes"));
}

void ExpressionParser::skip_spaces() {
  while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
}

bool ExpressionParser::take(char c) {
  skip_spaces();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void ExpressionParser::demand(char c) {
  if (!take(c)) fail(text("'", c, "' is expected here"));
}

std::string_view ExpressionParser::word() {
  skip_spaces();
  const size_t start = at_;
  while (at_ < text_.size() &&
         (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
    ++at_;
  }
  return text_.substr(start, at_ - start);
}

double ExpressionParser::number() {
  skip_spaces();
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("a number is expected here");
  at_ += static_cast<size_t>(end - begin);
  return value;
}

std::string ExpressionParser::quoted() {
  demand('"');
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    out += text_[at_++];
  }
  demand('"');
  return out;
}

Operand ExpressionParser::operand() {
  skip_spaces();
  const char kind = at_ < text_.size() ? text_[at_] : '\0';
  const bool named = at_ + 1 < text_.size() &&
                     std::isdigit(static_cast<unsigned char>(text_[at_ + 1])) != 0 &&
                     (kind == 'i' || kind == 's' || kind == 't');
  if (!named) return {Operand::Kind::number, 0, number()};
  ++at_;
  uint32_t index = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), index);
  if (error != std::errc()) fail("an index is expected here");
  at_ += static_cast<size_t>(end - begin);
  const size_t limit = kind == 'i' ? inputs_ : kind == 's' ? scalars_ : out_.instructions.size();
  if (index >= limit) fail(text("'", kind, index, "' does not exist; there are ", limit));
  return {kind == 'i'   ? Operand::Kind::input
          : kind == 's' ? Operand::Kind::scalar
                        : Operand::Kind::result,
          index, 0};
}

void ExpressionParser::instruction() {
  const size_t start = at_;
  if (word() != text("t", out_.instructions.size())) {
    at_ = start;
    fail(text("'t", out_.instructions.size(), "' or 'out' is expected here"));
  }
  demand('=');
  const auto name = word();
  const auto* row = find_element_op(name);
  if (row == nullptr) fail(text("'", name, "' is no element-wise op"));
  Instruction in;
  in.op = row->op;
  demand('(');
  in.a = operand();
  if (row->arity == 2) {
    demand(',');
    in.b = operand();
  }
  demand(')');
  if (take('{')) attributes(in);
  out_.instructions.push_back(in);
}

void ExpressionParser::attributes(Instruction& in) {
  do {
    const auto name = word();
    if (!take('=') && !take(':')) fail("'=' is expected here");
    if (name == "p") {
      in.p = number();
      if (!(in.p >= 0 && in.p < 1)) fail("dropout's p must be in [0, 1)");
    } else if (name == "site") {
      in.site = site_of(quoted());
    } else {
      fail(text("'", name, "' is no attribute of an element-wise op"));
    }
  } while (take(','));
  demand('}');
}

void ExpressionParser::outputs() {
  do {
    out_.outputs.push_back(operand());
    take(',');
    skip_spaces();
  } while (at_ < text_.size());
}

}  // namespace megatron::cpu
