#include "graph/builder.hpp"

#include "graph/op.hpp"
#include "graph/verifier.hpp"

namespace megatron::graph {
namespace {

// So that sums of bytes over all tensors of a model stay within 64 bits.
constexpr double kMaxElements = 1LL << 40;

Status check_elements(const Type& type, std::string_view what) {
  double elements = 1;
  for (const auto& d : type.dims) elements *= static_cast<double>(d.size);
  if (elements <= kMaxElements) return {};
  return invalid_argument(
      text(what, " is larger than any machine"),
      text("its type is ", to_string(type), "; a tensor has at most 2^40 elements"),
      "lower the sizes above");
}

}  // namespace

ProgramBuilder::ProgramBuilder(Program program) : program_(std::move(program)) {
  for (const auto& value : program_.values) {
    if (value.kind != ValueKind::result && value.kind != ValueKind::constant)
      names_.insert(value.name);
  }
  for (const auto& output : program_.outputs) results_.insert(output.name);
  for (const auto& loss : program_.losses) results_.insert(loss.name);
}

std::string ProgramBuilder::scope() const {
  std::string out = fixed_scope_;
  for (const auto& s : scopes_) {
    if (!out.empty()) out += '.';
    out += s;
  }
  return out;
}

Status ProgramBuilder::check_value(ValueId value, std::string_view what) const {
  if (value < program_.values.size()) return {};
  return invalid_argument(
      text(what, " refers to value ", value, ", which this program does not have"));
}

// Remembers a name among those of its kind.
Status ProgramBuilder::add_name(std::set<std::string, std::less<>>& names, std::string_view name,
                                std::string_view what) const {
  if (name.empty()) return invalid_argument(text("every ", what, " needs a name"));
  if (names.emplace(name).second) return {};
  return Status::error(
      Code::already_exists,
      text(what, " '", name, "' is declared twice in program '", program_.name, "'"));
}

Status ProgramBuilder::declare(std::string_view name, const Type& type, std::string_view what) {
  MGT_RETURN_IF_ERROR(add_name(names_, name, what));
  for (const auto& d : type.dims) {
    if (d.size <= 0) {
      return invalid_argument(
          text(what, " '", name, "' has the size ", d.size, " on axis '", d.axis, "'"),
          text("its type is ", to_string(type)), "sizes must be positive");
    }
  }
  return check_elements(type, text(what, " '", name, "'"));
}

Result<ValueId> ProgramBuilder::parameter(std::string_view name, Type type, Initializer init,
                                          bool trainable) {
  MGT_RETURN_IF_ERROR(declare(name, type, "parameter"));
  Value value;
  value.name = name;
  value.type = std::move(type);
  value.kind = ValueKind::parameter;
  const ValueId id = program_.add_value(std::move(value));
  program_.parameters.push_back({id, init, trainable});
  return id;
}

Result<ValueId> ProgramBuilder::input(std::string_view name, Type type) {
  MGT_RETURN_IF_ERROR(declare(name, type, "input"));
  Value value;
  value.name = name;
  value.type = std::move(type);
  value.kind = ValueKind::input;
  return program_.add_value(std::move(value));
}

Result<ValueId> ProgramBuilder::state(std::string_view name, Type type) {
  MGT_RETURN_IF_ERROR(declare(name, type, "state"));
  Value value;
  value.name = name;
  value.type = std::move(type);
  value.kind = ValueKind::state;
  return program_.add_value(std::move(value));
}

ValueId ProgramBuilder::scalar(std::string_view name) {
  if (const ValueId id = program_.find(name); id != kNone) return id;
  Value value;
  value.name = name;
  value.type = {DType::f64, {}};
  value.kind = ValueKind::scalar;
  return program_.add_value(std::move(value));
}

ValueId ProgramBuilder::constant(double number) {
  Value value;
  value.type = {DType::f64, {}};
  value.kind = ValueKind::constant;
  value.constant = number;
  return program_.add_value(std::move(value));
}

Result<std::vector<ValueId>> ProgramBuilder::op(std::string_view name, std::vector<ValueId> inputs,
                                                Attrs attrs) {
  return write(find_op(name), name, std::move(inputs), std::move(attrs));
}

Result<std::vector<ValueId>> ProgramBuilder::public_op(std::string_view name,
                                                       std::vector<ValueId> inputs, Attrs attrs) {
  const OpDef* row = find_op(name);
  return write(row != nullptr && row->internal ? nullptr : row, name, std::move(inputs),
               std::move(attrs));
}

// `row` is null when there is no such op for the writer.
Result<std::vector<ValueId>> ProgramBuilder::write(const OpDef* row, std::string_view name,
                                                   std::vector<ValueId> inputs, Attrs attrs) {
  const auto where = [&](Status status) {
    const std::string s = scope();
    return s.empty() ? std::move(status)
                     : std::move(status).context(
                           text("writing '", s, "' of program '", program_.name, "'"));
  };
  if (row == nullptr) {
    return where(Status::error(Code::not_found, text("there is no op '", name, "'"), {},
                               "docs/ops.md lists the ops"));
  }
  std::vector<Type> types;
  for (const ValueId id : inputs) {
    MGT_RETURN_IF_ERROR(check_value(id, text("op '", name, "'")));
    types.push_back(program_.type(id));
  }
  auto results = infer_types(*row, attrs, types);
  if (!results.ok()) return where(std::move(results).status());
  for (const Type& type : *results)
    MGT_RETURN_IF_ERROR(where(check_elements(type, text("a result of op '", name, "'"))));
  Node node;
  node.op = row;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.scope = scope();
  node.block = block_;
  node.in_block = in_block_;
  node.phase = phase_;
  const NodeId id = program_.add_node(std::move(node), *results);
  return program_.nodes[id].outputs;
}

ValueId ProgramBuilder::op1(std::string_view name, std::vector<ValueId> inputs, Attrs attrs) {
  auto out = op(name, std::move(inputs), std::move(attrs));
  MGT_CHECK(out.ok(), out.status().message());
  MGT_CHECK(out->size() == 1, name);
  return (*out)[0];
}

Status ProgramBuilder::output(std::string_view name, ValueId value) {
  MGT_RETURN_IF_ERROR(check_value(value, text("output '", name, "'")));
  MGT_RETURN_IF_ERROR(add_name(results_, name, "output"));
  program_.outputs.push_back({std::string(name), value});
  return {};
}

Status ProgramBuilder::loss(std::string_view name, ValueId sum, ValueId count, double weight) {
  MGT_RETURN_IF_ERROR(check_value(sum, text("loss '", name, "'")));
  MGT_RETURN_IF_ERROR(check_value(count, text("loss '", name, "'")));
  MGT_RETURN_IF_ERROR(add_name(results_, name, "loss"));
  program_.losses.push_back({std::string(name), sum, count, weight});
  return {};
}

Status ProgramBuilder::pop_scope() {
  if (scopes_.empty()) return invalid_argument("pop_scope without push_scope");
  scopes_.pop_back();
  return {};
}

Status ProgramBuilder::begin_block(int64_t index) {
  if (in_block_) return invalid_argument("begin_block inside a block", "blocks do not nest");
  if (index != block_ + 1) {
    return invalid_argument(text("block ", index, " begins after block ", block_),
                            "blocks are numbered 0, 1, 2, … in order");
  }
  block_ = index;
  in_block_ = true;
  return {};
}

Status ProgramBuilder::end_block() {
  if (!in_block_) return invalid_argument("end_block without begin_block");
  in_block_ = false;
  return {};
}

void ProgramBuilder::set_place(const Node& node) {
  fixed_scope_ = node.scope;
  block_ = node.block;
  in_block_ = node.in_block;
}

Result<Program> ProgramBuilder::finish() && {
  if (!scopes_.empty()) return invalid_argument(text("scope '", scope(), "' is not closed"));
  if (in_block_) return invalid_argument(text("block ", block_, " is not closed"));
  MGT_RETURN_IF_ERROR(verify(program_));
  return std::move(program_);
}

// ---- the ABI's side
// ----------------------------------------------------------------------------------

namespace {

ProgramBuilder& self(void* context) { return *static_cast<ProgramBuilder*>(context); }

Result<Type> read_type(mgt_dtype dtype, const mgt_dim* dims, uint32_t rank) {
  Type type{static_cast<DType>(dtype), {}};
  if (dtype_size(type.dtype) == 0) return invalid_argument(text("unknown dtype number ", dtype));
  if (rank > MGT_MAX_RANK) return invalid_argument(text("rank ", rank, " exceeds ", MGT_MAX_RANK));
  for (uint32_t d = 0; d < rank; ++d)
    type.dims.push_back({dims[d].size, std::string(from_abi(dims[d].axis))});
  return type;
}

Result<AttrValue> read_attr(const mgt_attr& a) {
  switch (a.type) {
    case MGT_ATTR_INT:
      return AttrValue(a.i);
    case MGT_ATTR_FLOAT:
      return AttrValue(a.f);
    case MGT_ATTR_STRING:
      return AttrValue(std::string(from_abi(a.s)));
    case MGT_ATTR_INTS:
      return AttrValue(std::vector<int64_t>(a.ints, a.ints + a.int_count));
    default:
      return Status(Code::unimplemented,
                    text("attribute '", from_abi(a.name), "' has the unknown type ", a.type));
  }
}

Status store(Result<ValueId> result, mgt_value* out) {
  if (!result.ok()) return std::move(result).status();
  *out = *result;
  return {};
}

mgt_status* add_parameter(void* context, const mgt_parameter_desc* desc, mgt_value* out) {
  return guarded([&]() -> Status {
    MGT_ASSIGN_OR_RETURN(Type type, read_type(desc->dtype, desc->dims, desc->rank));
    if (desc->init < MGT_INIT_ZEROS || desc->init > MGT_INIT_UNIFORM) {
      return Status(Code::unimplemented, text("unknown initializer number ", desc->init));
    }
    return store(self(context).parameter(from_abi(desc->name), std::move(type),
                                         {desc->init, desc->init_a, desc->init_b},
                                         (desc->flags & MGT_PARAMETER_FROZEN) == 0),
                 out);
  });
}

mgt_status* add_input(void* context, const mgt_input_desc* desc, mgt_value* out) {
  return guarded([&]() -> Status {
    MGT_ASSIGN_OR_RETURN(Type type, read_type(desc->dtype, desc->dims, desc->rank));
    return store(self(context).input(from_abi(desc->name), std::move(type)), out);
  });
}

mgt_status* add_op(void* context, mgt_str name, const mgt_value* inputs, uint64_t input_count,
                   const mgt_attr* attrs, uint64_t attr_count, mgt_value* outputs,
                   uint64_t output_count) {
  return guarded([&]() -> Status {
    Attrs map;
    for (uint64_t i = 0; i < attr_count; ++i) {
      MGT_ASSIGN_OR_RETURN(AttrValue value, read_attr(attrs[i]));
      map.emplace(std::string(from_abi(attrs[i].name)), std::move(value));
    }
    MGT_ASSIGN_OR_RETURN(
        const auto results,
        self(context).public_op(from_abi(name), {inputs, inputs + input_count}, std::move(map)));
    if (results.size() != output_count) {
      return invalid_argument(text("op '", from_abi(name), "' has ", results.size(),
                                   " results, the caller takes ", output_count));
    }
    std::copy(results.begin(), results.end(), outputs);
    return {};
  });
}

mgt_status* describe(void* context, mgt_value value, mgt_value_desc* out) {
  return guarded([&]() -> Status {
    const auto& program = self(context).program();
    if (value >= program.values.size()) return invalid_argument(text("there is no value ", value));
    const Type& type = program.type(value);
    out->dtype = static_cast<mgt_dtype>(type.dtype);
    out->rank = static_cast<uint32_t>(type.rank());
    for (size_t d = 0; d < type.rank(); ++d)
      out->dims[d] = {to_abi(type.dims[d].axis), type.dims[d].size};
    return {};
  });
}

}  // namespace

mgt_builder ProgramBuilder::table() {
  mgt_builder t;
  MGT_INIT(&t);
  t.context = this;
  t.parameter = add_parameter;
  t.input = add_input;
  t.scalar = [](void* c, mgt_str name, mgt_value* out) {
    return guarded([&] { *out = self(c).scalar(from_abi(name)); });
  };
  t.constant = [](void* c, double value, mgt_value* out) {
    return guarded([&] { *out = self(c).constant(value); });
  };
  t.op = add_op;
  t.describe = describe;
  t.output = [](void* c, mgt_str name, mgt_value v) {
    return guarded([&] { return self(c).output(from_abi(name), v); });
  };
  t.loss = [](void* c, mgt_str name, mgt_value sum, mgt_value count, double weight) {
    return guarded([&] { return self(c).loss(from_abi(name), sum, count, weight); });
  };
  t.push_scope = [](void* c, mgt_str name) {
    return guarded([&] { self(c).push_scope(from_abi(name)); });
  };
  t.pop_scope = [](void* c) { return guarded([&] { return self(c).pop_scope(); }); };
  t.begin_block = [](void* c, int64_t index) {
    return guarded([&] { return self(c).begin_block(index); });
  };
  t.end_block = [](void* c) { return guarded([&] { return self(c).end_block(); }); };
  return t;
}

}  // namespace megatron::graph
