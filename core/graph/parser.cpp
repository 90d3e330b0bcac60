#include <algorithm>
#include <cctype>
#include <map>

#include "graph/op.hpp"
#include "graph/text.hpp"
#include "graph/verifier.hpp"

namespace megatron::graph {
namespace {

// Recursive descent over one line at a time; a failure sets status_ once and every later step is a
// no-op.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Program> run() {
    next_line();
    word("program");
    program_.name = name();
    end_of_line();
    while (status_.ok() && !peek_word("end")) {
      statement();
      end_of_line();
    }
    if (status_.ok()) word("end");
    if (!status_.ok()) return status_;
    MGT_RETURN_IF_ERROR(verify(program_));
    return std::move(program_);
  }

 private:
  // ---- characters
  void fail(std::string_view what) {
    if (!status_.ok()) return;
    status_ = invalid_argument(megatron::text("program text, line ", line_number_, ": ", what),
                               megatron::text("the line reads: ", line_));
  }
  bool next_line() {
    while (begin_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', begin_), text_.size());
      line_ = text_.substr(begin_, end - begin_);
      begin_ = end + 1;
      ++line_number_;
      at_ = 0;
      skip();
      if (at_ < line_.size() && line_[at_] != '#') return true;
    }
    line_ = {};
    at_ = 0;
    return false;
  }
  void skip() {
    while (at_ < line_.size() && std::isspace(static_cast<unsigned char>(line_[at_])) != 0) ++at_;
  }
  bool accept(std::string_view token) {
    skip();
    if (!status_.ok() || line_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(megatron::text("expected '", token, "' at column ", at_ + 1));
  }
  static bool is_name_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '@' ||
           c == '#' || c == '-';
  }
  std::string_view peek_token() {
    skip();
    size_t end = at_;
    while (end < line_.size() && is_name_char(line_[end])) ++end;
    return line_.substr(at_, end - at_);
  }
  bool peek_word(std::string_view w) { return peek_token() == w; }
  bool accept_word(std::string_view w) {
    if (!status_.ok() || peek_token() != w) return false;
    at_ += w.size();
    return true;
  }
  void word(std::string_view w) {
    if (!accept_word(w)) fail(megatron::text("expected '", w, "' at column ", at_ + 1));
  }
  std::string name() {
    const auto token = peek_token();
    if (token.empty()) fail(megatron::text("expected a name at column ", at_ + 1));
    at_ += token.size();
    return std::string(token);
  }
  template <class T>
  T number() {
    skip();
    T value{};
    const char* first = line_.data() + at_;
    const auto [end, error] = std::from_chars(first, line_.data() + line_.size(), value);
    if (error != std::errc()) fail(megatron::text("expected a number at column ", at_ + 1));
    at_ += static_cast<size_t>(end - first);
    return value;
  }
  void end_of_line() {
    skip();
    if (status_.ok() && at_ < line_.size())
      fail(megatron::text("unexpected text at column ", at_ + 1));
    if (!status_.ok()) return;
    if (!next_line()) fail("the text ends without 'end'");
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < line_.size() && line_[at_] != '"') {
      const bool escaped = line_[at_] == '\\';
      if (escaped && ++at_ >= line_.size()) break;
      out += escaped && line_[at_] == 'n' ? '\n' : line_[at_];
      ++at_;
    }
    if (at_ >= line_.size()) {
      fail("a string is not closed");
    } else {
      ++at_;
    }
    return out;
  }

  // ---- pieces
  ValueId reference() {
    expect("%");
    const auto n = name();
    const auto it = names_.find(n);
    if (it != names_.end()) return it->second;
    fail(megatron::text("%", n, " is not defined above"));
    return 0;
  }
  ValueId define(Value value) {
    if (!status_.ok()) return 0;
    const std::string n = value.name;
    const ValueId id = program_.add_value(std::move(value));
    if (!names_.emplace(n, id).second) fail(megatron::text("%", n, " is defined twice"));
    return id;
  }
  // f32[batch=2, vocab=6{6+5 of 11}]
  void type(Value& value) {
    const auto n = name();
    const auto dtype = parse_dtype(n);
    if (!dtype) return fail(megatron::text("unknown type '", n, "'"));
    value.type.dtype = *dtype;
    expect("[");
    bool mapped = false;
    std::vector<IndexMap> maps;
    while (status_.ok() && !accept("]")) {
      if (!value.type.dims.empty()) expect(",");
      Dim dim;
      skip();
      if (at_ < line_.size() && std::isdigit(static_cast<unsigned char>(line_[at_])) == 0) {
        dim.axis = name();
        expect("=");
      }
      dim.size = number<int64_t>();
      IndexMap map = IndexMap::identity(dim.size);
      if (accept("{")) {
        mapped = true;
        map = index_map(dim.size);
      }
      maps.push_back(std::move(map));
      value.type.dims.push_back(std::move(dim));
    }
    if (mapped) value.maps = std::move(maps);
  }
  IndexMap index_map(int64_t local_size) {
    std::vector<mgt_index_piece> pieces;
    int64_t local = 0;
    while (status_.ok() && !peek_word("of")) {
      if (!pieces.empty()) expect(",");
      const auto global = number<int64_t>();
      expect("+");
      const auto size = number<int64_t>();
      pieces.push_back({local, global, size});
      local += size;
    }
    word("of");
    const auto global_size = number<int64_t>();
    const bool inside = std::all_of(pieces.begin(), pieces.end(), [&](const mgt_index_piece& p) {
      return p.global_begin >= 0 && p.size > 0 && p.global_begin + p.size <= global_size;
    });
    if (local > local_size || !inside) {
      fail(megatron::text("the index map does not fit ", local_size, " places of ", global_size));
    }
    expect("}");
    return {global_size, local_size, std::move(pieces)};
  }
  AttrValue attr() {
    skip();
    if (at_ < line_.size() && line_[at_] == '"') return quoted();
    if (accept("[")) {
      std::vector<int64_t> out;
      while (status_.ok() && !accept("]")) {
        if (!out.empty()) expect(",");
        out.push_back(number<int64_t>());
      }
      return out;
    }
    const size_t end = std::min(line_.find_first_of(",}", at_), line_.size());
    const auto token = line_.substr(at_, end - at_);
    if (token.find_first_of(".en") != std::string_view::npos) return number<double>();
    return number<int64_t>();
  }
  Initializer initializer() {
    const auto n = name();
    Initializer init;
    const auto arguments = [&](int count) {
      expect("(");
      init.a = number<double>();
      if (count == 2) {
        expect(",");
        init.b = number<double>();
      }
      expect(")");
    };
    if (n == "zeros") {
      init.kind = MGT_INIT_ZEROS;
    } else if (n == "ones") {
      init.kind = MGT_INIT_ONES;
    } else if (n == "constant") {
      init.kind = MGT_INIT_CONSTANT;
      arguments(1);
    } else if (n == "normal") {
      init.kind = MGT_INIT_NORMAL;
      arguments(2);
    } else if (n == "uniform") {
      init.kind = MGT_INIT_UNIFORM;
      arguments(2);
    } else {
      fail(megatron::text("unknown initializer '", n, "'"));
    }
    return init;
  }

  // ---- statements
  void statement() {
    if (accept_word("parameter")) return parameter();
    if (accept_word("state")) return tensor(ValueKind::state);
    if (accept_word("input")) return tensor(ValueKind::input);
    if (accept_word("scalar")) return scalar(ValueKind::scalar);
    if (accept_word("constant")) return scalar(ValueKind::constant);
    if (accept_word("output")) return output();
    if (accept_word("loss")) return loss();
    node();
  }
  Value named(ValueKind kind) {
    Value value;
    value.kind = kind;
    expect("%");
    value.name = name();
    return value;
  }
  void parameter() {
    Value value = named(ValueKind::parameter);
    expect(":");
    type(value);
    expect("=");
    Parameter p{0, initializer(), true};
    p.trainable = !accept_word("frozen");
    p.value = define(std::move(value));
    if (status_.ok()) program_.parameters.push_back(p);
  }
  void tensor(ValueKind kind) {
    Value value = named(kind);
    expect(":");
    type(value);
    define(std::move(value));
  }
  void scalar(ValueKind kind) {
    Value value = named(kind);
    value.type = {DType::f64, {}};
    if (kind == ValueKind::constant) {
      expect("=");
      value.constant = number<double>();
    }
    define(std::move(value));
  }
  void output() {
    const auto n = name();
    expect("=");
    const ValueId v = reference();
    program_.outputs.push_back({n, v});
  }
  void loss() {
    LossTerm term;
    term.name = name();
    expect("=");
    term.sum = reference();
    expect("/");
    term.count = reference();
    if (accept_word("weight")) term.weight = number<double>();
    program_.losses.push_back(std::move(term));
  }
  void node() {
    std::vector<Value> outputs;
    skip();
    if (at_ < line_.size() && line_[at_] == '%') {
      do outputs.push_back(named(ValueKind::result));
      while (accept(","));
      expect("=");
    }
    Node node;
    const auto op_name = name();
    node.op = find_op(op_name);
    if (node.op == nullptr) return fail(megatron::text("there is no op '", op_name, "'"));
    expect("(");
    while (status_.ok() && !accept(")")) {
      if (!node.inputs.empty()) expect(",");
      node.inputs.push_back(reference());
    }
    if (accept("{")) {
      while (status_.ok() && !accept("}")) {
        if (!node.attrs.empty()) expect(",");
        const auto attr_name = name();
        expect("=");
        node.attrs.emplace(attr_name, attr());
      }
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      expect(o == 0 ? ":" : ",");
      type(outputs[o]);
      const bool adds = accept_word("add");
      if (adds) node.accumulate_mask |= uint64_t{1} << o;
      if (accept_word("into")) {
        outputs[o].into = reference();
      } else if (adds) {
        fail("expected 'into' after 'add'");
      }
    }
    if (accept("@")) node.scope = name();
    if (accept_word("block")) {
      node.block = number<int64_t>();
      node.in_block = true;
    } else if (accept_word("after")) {
      node.block = number<int64_t>();
    }
    if (accept_word("backward")) {
      node.phase = Phase::backward;
    } else if (accept_word("update")) {
      node.phase = Phase::update;
    }
    if (!status_.ok()) return;
    const auto id = static_cast<NodeId>(program_.nodes.size());
    for (auto& value : outputs) {
      value.producer = id;
      node.outputs.push_back(define(std::move(value)));
    }
    program_.nodes.push_back(std::move(node));
  }

  std::string_view text_;
  std::string_view line_;
  size_t begin_ = 0;
  size_t at_ = 0;
  int line_number_ = 0;
  Program program_;
  std::map<std::string, ValueId, std::less<>> names_;
  Status status_;
};

}  // namespace

Result<Program> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace megatron::graph
