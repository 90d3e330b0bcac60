#include "graph/ir.hpp"

#include "graph/op.hpp"

namespace megatron::graph {

int64_t Type::elements() const {
  int64_t n = 1;
  for (const auto& d : dims) n *= d.size;
  return n;
}

std::string to_string(const Type& type) {
  std::string out(dtype_name(type.dtype));
  out += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) out += ", ";
    if (!type.dims[i].axis.empty()) out += type.dims[i].axis + "=";
    out += std::to_string(type.dims[i].size);
  }
  out += ']';
  return out;
}

namespace {
template <class T>
const T* attr(const Attrs& attrs, std::string_view name) {
  const auto it = attrs.find(name);
  return it == attrs.end() ? nullptr : std::get_if<T>(&it->second);
}
}  // namespace

int64_t int_attr(const Attrs& attrs, std::string_view name, int64_t fallback) {
  const auto* v = attr<int64_t>(attrs, name);
  return v ? *v : fallback;
}
double float_attr(const Attrs& attrs, std::string_view name, double fallback) {
  const auto* v = attr<double>(attrs, name);
  return v ? *v : fallback;
}
std::string string_attr(const Attrs& attrs, std::string_view name) {
  const auto* v = attr<std::string>(attrs, name);
  return v ? *v : std::string();
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

ValueId Program::add_value(Value value) {
  const auto id = static_cast<ValueId>(values.size());
  if (value.name.empty()) value.name = std::to_string(id);
  switch (value.kind) {
    case ValueKind::input:
      inputs.push_back(id);
      break;
    case ValueKind::state:
      states.push_back(id);
      break;
    default:
      break;
  }
  values.push_back(std::move(value));
  return id;
}

NodeId Program::add_node(Node node, std::span<const Type> output_types) {
  const auto id = static_cast<NodeId>(nodes.size());
  for (const auto& type : output_types) {
    Value value;
    value.type = type;
    value.producer = id;
    node.outputs.push_back(add_value(std::move(value)));
  }
  nodes.push_back(std::move(node));
  return id;
}

namespace {

bool has_name(const Value& value) {
  return value.kind != ValueKind::result && value.kind != ValueKind::constant;
}

}  // namespace

ValueId Program::find(std::string_view wanted) const {
  for (ValueId id = 0; id < values.size(); ++id)
    if (has_name(values[id]) && values[id].name == wanted) return id;
  return kNone;
}

NameIndex::NameIndex(const Program& program) {
  for (ValueId id = 0; id < program.values.size(); ++id)
    if (has_name(program.values[id])) ids_.emplace(program.values[id].name, id);
}

}  // namespace megatron::graph
