#include "graph/op.hpp"

#include <algorithm>

namespace megatron::graph {
namespace {

std::vector<OpDef> make_table() {
  std::vector<OpDef> table;
  add_attention_ops(table);
  add_communication_ops(table);
  add_elementwise_ops(table);
  add_embedding_ops(table);
  add_linear_ops(table);
  add_loss_ops(table);
  add_movement_ops(table);
  add_norm_ops(table);
  add_reduction_ops(table);
  std::sort(table.begin(), table.end(),
            [](const OpDef& a, const OpDef& b) { return a.name < b.name; });
  for (size_t i = 1; i < table.size(); ++i)
    MGT_CHECK(table[i - 1].name != table[i].name, table[i].name);
  for (const OpDef& row : table) MGT_CHECK((row.ids != 0) == (row.ids_of != 0), row.name);
  return table;
}

std::string operand_list(std::span<const Type> inputs) {
  std::string out;
  for (const auto& t : inputs) out += (out.empty() ? "" : ", ") + to_string(t);
  return out;
}

std::string_view attr_kind_name(AttrKind kind) {
  switch (kind) {
    case AttrKind::integer:
      return "an integer";
    case AttrKind::floating:
      return "a number";
    case AttrKind::string:
      return "a string";
    case AttrKind::integers:
      return "a list of integers";
  }
  return "?";
}

Status check_attrs(const OpDef& op, Attrs& attrs) {
  for (auto& [name, value] : attrs) {
    const auto spec = std::find_if(
        op.attrs.begin(), op.attrs.end(),
        [wanted = std::string_view(name)](const AttrSpec& s) { return s.name == wanted; });
    if (spec == op.attrs.end()) {
      std::string known;
      for (const auto& s : op.attrs) known += text(known.empty() ? "" : ", ", s.name);
      return invalid_argument(text("op '", op.name, "' has no attribute '", name, "'"),
                              known.empty() ? "it has none" : text("it has ", known),
                              "remove it, or correct its name");
    }
    if (spec->kind == AttrKind::floating && std::holds_alternative<int64_t>(value)) {
      value = static_cast<double>(std::get<int64_t>(value));
    }
    if (value.index() != static_cast<size_t>(spec->kind)) {
      return invalid_argument(text("attribute '", name, "' of op '", op.name, "' has a wrong type"),
                              text("it must be ", attr_kind_name(spec->kind)),
                              "pass a value of that type");
    }
  }
  for (const auto& spec : op.attrs) {
    if (attrs.contains(spec.name)) continue;
    if (spec.required) {
      return invalid_argument(text("op '", op.name, "' needs the attribute '", spec.name, "'"),
                              text("it is ", attr_kind_name(spec.kind), " without a default"),
                              "pass it; docs/ops.md lists the attributes");
    }
    switch (spec.kind) {
      case AttrKind::integer:
        attrs.emplace(spec.name, int64_t{0});
        break;
      case AttrKind::floating:
        attrs.emplace(spec.name, 0.0);
        break;
      case AttrKind::string:
        attrs.emplace(spec.name, std::string());
        break;
      case AttrKind::integers:
        attrs.emplace(spec.name, std::vector<int64_t>());
        break;
    }
  }
  return {};
}

// The dimension that a letter of the op's pattern stands for.
const Dim& dim_of(const Program& program, const Node& node, char letter) {
  const Labels labels = labels_of(program, node);
  const Dim* found = nullptr;
  const auto look = [&](const std::vector<Label>& ls, ValueId value) {
    for (size_t d = 0; d < ls.size(); ++d) {
      if (labels.letters[static_cast<size_t>(ls[d])] == letter)
        found = &program.type(value).dims[d];
    }
  };
  for (size_t i = 0; i < labels.inputs.size(); ++i) look(labels.inputs[i], node.inputs[i]);
  for (size_t o = 0; o < labels.outputs.size(); ++o) look(labels.outputs[o], node.outputs[o]);
  MGT_CHECK(found != nullptr, node.op->name);
  return *found;
}

}  // namespace

std::string_view reduce_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum:
      return "sum";
    case Reduce::max:
      return "max";
    case Reduce::logsumexp:
      return "logsumexp";
  }
  return "?";
}

std::optional<Reduce> parse_reduce(std::string_view name) {
  for (const Reduce r : {Reduce::sum, Reduce::max, Reduce::logsumexp})
    if (reduce_name(r) == name) return r;
  return std::nullopt;
}

std::span<const OpDef> op_table() {
  static const std::vector<OpDef> table = make_table();
  return table;
}

const OpDef* find_op(std::string_view name) {
  const auto table = op_table();
  const auto it =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const OpDef& row, std::string_view n) { return row.name < n; });
  return it != table.end() && it->name == name ? &*it : nullptr;
}

const OpDef* op(std::string_view name) {
  const auto* row = find_op(name);
  MGT_CHECK(row != nullptr, name);
  return row;
}

Result<Labels> labels_of(const OpDef& op, const Attrs& attrs, std::span<const Type> inputs) {
  std::vector<int> ranks;
  for (const auto& t : inputs) ranks.push_back(t.is_scalar() ? -1 : static_cast<int>(t.rank()));
  if (op.pattern.empty()) return elementwise_labels(ranks, op.outputs);
  std::map<char, int> groups;
  if (op.group != 0) groups[op.group] = static_cast<int>(int_attr(attrs, op.group_attr));
  return match_labels(op.pattern, ranks, std::move(groups));
}

Labels labels_of(const Program& program, const Node& node) {
  std::vector<Type> inputs;
  for (const auto id : node.inputs) inputs.push_back(program.type(id));
  if (node.accumulate_mask != 0) inputs.pop_back();
  auto labels = labels_of(*node.op, node.attrs, inputs);
  MGT_CHECK(labels.ok(), labels.status().message());
  if (node.accumulate_mask != 0) labels->inputs.emplace_back();
  return *labels;
}

std::vector<int64_t> label_sizes(const Program& program, const Node& node, const Labels& labels) {
  std::vector<int64_t> sizes(labels.letters.size(), 1);
  const auto collect = [&](const std::vector<Label>& ls, ValueId value) {
    for (size_t d = 0; d < ls.size(); ++d) sizes[ls[d]] = program.type(value).dims[d].size;
  };
  for (size_t i = 0; i < labels.inputs.size(); ++i) collect(labels.inputs[i], node.inputs[i]);
  for (size_t o = 0; o < labels.outputs.size(); ++o) collect(labels.outputs[o], node.outputs[o]);
  return sizes;
}

Result<std::vector<Type>> infer_types(const OpDef& op, Attrs& attrs, std::span<const Type> inputs) {
  MGT_RETURN_IF_ERROR(check_attrs(op, attrs));
  if (op.infer != nullptr) return op.infer(attrs, inputs);
  if (op.elementwise() && static_cast<int>(inputs.size()) != op.arity) {
    return invalid_argument(text("op '", op.name, "' cannot take (", operand_list(inputs), ")"),
                            text("it takes ", op.arity, op.arity == 1 ? " operand" : " operands",
                                 ", not ", inputs.size()),
                            "docs/ops.md has the shapes and types of its operands");
  }
  if (op.elementwise() &&
      std::all_of(inputs.begin(), inputs.end(), [](const Type& t) { return t.is_scalar(); })) {
    return std::vector<Type>{{DType::f64, {}}};
  }
  const auto refuse = [&](std::string_view cause) {
    return invalid_argument(text("op '", op.name, "' cannot take (", operand_list(inputs), ")"),
                            cause, "docs/ops.md has the shapes and types of its operands");
  };
  auto labels = labels_of(op, attrs, inputs);
  if (!labels.ok()) return refuse(labels.status().message());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DType wanted = ((op.ids >> i) & 1) != 0 ? DType::i32 : DType::f32;
    if (!inputs[i].is_scalar() && inputs[i].dtype != wanted) {
      return refuse(text("operand ", i, " has elements of type ", dtype_name(inputs[i].dtype),
                         ", the op takes ", dtype_name(wanted)));
    }
  }
  std::vector<const Dim*> dims(labels->letters.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; d < labels->inputs[i].size(); ++d) {
      auto& seen = dims[labels->inputs[i][d]];
      const Dim& dim = inputs[i].dims[d];
      if (seen == nullptr) {
        seen = &dim;
      } else if (seen->size != dim.size ||
                 (seen->axis != dim.axis && !seen->axis.empty() && !dim.axis.empty())) {
        const auto show = [](const Dim& x) {
          return x.axis.empty() ? text("size ", x.size) : text(x.axis, "=", x.size);
        };
        return refuse(
            text("operand ", i, " has ", show(dim), " where an earlier one has ", show(*seen)));
      } else if (seen->axis.empty()) {
        seen = &dim;
      }
    }
  }
  std::vector<Type> types;
  for (const auto& output : labels->outputs) {
    Type type;
    for (const Label l : output) {
      if (dims[l] == nullptr) {
        return internal_error(
            text("op '", op.name, "': the size of label '", labels->letters[l], "' is not known"));
      }
      type.dims.push_back(*dims[l]);
    }
    types.push_back(std::move(type));
  }
  return types;
}

double flops_of(const Program& program, const Node& node) {
  if (node.op->flops == nullptr) {
    int64_t most = 0;
    for (const auto id : node.inputs) most = std::max(most, program.type(id).elements());
    return static_cast<double>(most);
  }
  const auto labels = labels_of(program, node);
  return node.op->flops(node.attrs, labels, label_sizes(program, node, labels));
}

std::optional<Dim> numbered_dim(const Program& program, ValueId value) {
  std::optional<Dim> smallest;
  for (const Node& node : program.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value || ((node.op->ids >> i) & 1) == 0) continue;
      const Dim& dim = dim_of(program, node, node.op->ids_of);
      if (!smallest || dim.size < smallest->size) smallest = dim;
    }
  }
  return smallest;
}

}  // namespace megatron::graph
