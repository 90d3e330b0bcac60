#include "graph/op.hpp"
#include "graph/text.hpp"

namespace megatron::graph {
namespace {

std::string quote(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string print_attr(const AttrValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* f = std::get_if<double>(&value)) {
    std::string s = text(*f);
    // Keeps the kind: 1.0, not 1.
    if (s.find_first_of(".en") == std::string::npos) s += ".0";
    return s;
  }
  if (const auto* s = std::get_if<std::string>(&value)) return quote(*s);
  std::string out = "[";
  for (const int64_t i : std::get<std::vector<int64_t>>(value)) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(i);
  }
  return out + "]";
}

std::string print_map(const IndexMap& map) {
  std::string out = "{";
  for (const auto& p : map.pieces()) {
    if (out.size() > 1) out += ", ";
    out += text(p.global_begin, "+", p.size);
  }
  return out + text(" of ", map.global_size(), "}");
}

std::string print_type(const Value& value) {
  std::string out = text(dtype_name(value.type.dtype), "[");
  for (size_t d = 0; d < value.type.rank(); ++d) {
    const Dim& dim = value.type.dims[d];
    if (d > 0) out += ", ";
    if (!dim.axis.empty()) out += dim.axis + "=";
    out += std::to_string(dim.size);
    if (!value.maps.empty() && !value.maps[d].is_identity()) out += print_map(value.maps[d]);
  }
  return out + "]";
}

std::string print_init(const Initializer& init) {
  switch (init.kind) {
    case MGT_INIT_ZEROS:
      return "zeros";
    case MGT_INIT_ONES:
      return "ones";
    case MGT_INIT_CONSTANT:
      return text("constant(", init.a, ")");
    case MGT_INIT_NORMAL:
      return text("normal(", init.a, ", ", init.b, ")");
    case MGT_INIT_UNIFORM:
      return text("uniform(", init.a, ", ", init.b, ")");
    default:
      return "?";
  }
}

std::string reference(const Program& program, ValueId id) { return "%" + program.values[id].name; }

std::string print_node(const Program& program, const Node& node) {
  std::string line;
  for (const ValueId v : node.outputs) line += (line.empty() ? "" : ", ") + reference(program, v);
  if (!line.empty()) line += " = ";
  line += node.op->name;
  line += '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i > 0) line += ", ";
    line += reference(program, node.inputs[i]);
  }
  line += ')';
  if (!node.attrs.empty()) {
    line += " {";
    bool first = true;
    for (const auto& [name, value] : node.attrs) {
      line += text(first ? "" : ", ", name, " = ", print_attr(value));
      first = false;
    }
    line += '}';
  }
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    const Value& value = program.values[node.outputs[o]];
    line += (o == 0 ? " : " : ", ") + print_type(value);
    if (value.into != kNone) {
      line += ((node.accumulate_mask >> o) & 1) != 0 ? " add into " : " into ";
      line += reference(program, value.into);
    }
  }
  if (!node.scope.empty()) line += " @ " + node.scope;
  if (node.block >= 0) line += text(node.in_block ? " block " : " after ", node.block);
  if (node.phase != Phase::forward) line += text(" ", phase_name(node.phase));
  return line;
}

}  // namespace

std::string print(const Program& program) {
  std::string out = text("program ", program.name, "\n");
  for (const auto& p : program.parameters) {
    const Value& v = program.values[p.value];
    out += text("  parameter %", v.name, " : ", print_type(v), " = ", print_init(p.init),
                p.trainable ? "" : " frozen", "\n");
  }
  for (const Value& v : program.values) {
    switch (v.kind) {
      case ValueKind::state:
        out += text("  state %", v.name, " : ", print_type(v), "\n");
        break;
      case ValueKind::input:
        out += text("  input %", v.name, " : ", print_type(v), "\n");
        break;
      case ValueKind::scalar:
        out += text("  scalar %", v.name, "\n");
        break;
      case ValueKind::constant:
        out += text("  constant %", v.name, " = ", v.constant, "\n");
        break;
      default:
        break;
    }
  }
  for (const auto& node : program.nodes) out += "  " + print_node(program, node) + "\n";
  for (const auto& o : program.outputs)
    out += text("  output ", o.name, " = ", reference(program, o.value), "\n");
  for (const auto& l : program.losses) {
    out += text("  loss ", l.name, " = ", reference(program, l.sum), " / ",
                reference(program, l.count), " weight ", l.weight, "\n");
  }
  return out + "end\n";
}

}  // namespace megatron::graph
