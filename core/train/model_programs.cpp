#include "train/model_programs.hpp"

#include <algorithm>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "passes/autodiff.hpp"
#include "plugin/scan.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

// A plugin broke what its table promises. `who` did what `fact` says; `cause` is the promise.
Status broken_promise(std::string_view who, std::string_view fact, std::string_view cause) {
  return Status::error(plugin::kUnusable, text(who, " ", fact), cause,
                       "report it to the plugin's author, or choose another plugin");
}

// Scalars are what the host sets before a program runs.
Status check_scalars(std::string_view who, const Program& p,
                     std::initializer_list<std::string_view> known) {
  for (const Value& value : p.values) {
    if (value.kind != ValueKind::scalar) continue;
    if (std::find(known.begin(), known.end(), value.name) != known.end()) continue;
    std::string list;
    for (const auto name : known) list += text(list.empty() ? "" : ", ", name);
    return broken_promise(who,
                          text("reads the scalar '", value.name, "' in program '", p.name, "'"),
                          list.empty() ? "the host sets none there" : text("the host sets ", list));
  }
  return {};
}

// The program that the model calls `name`, as it writes it. seq_length 0 = the model's own.
Result<Program> build_model_program(const ModelView& model, std::string_view name,
                                    int64_t batch_size, int64_t seq_length) {
  const auto writing = [&] { return text(model.who, " writes program '", name, "'"); };
  ProgramBuilder builder{std::string(name)};
  const mgt_builder table = builder.table();
  mgt_program_request request;
  MGT_INIT(&request);
  request.program = to_abi(name);
  request.batch_size = batch_size;
  request.seq_length = seq_length;
  MGT_RETURN_IF_ERROR(
      from_abi(model.table->build(model.self, &request, &table), model.who).context(writing()));
  auto program = std::move(builder).finish();
  if (!program.ok()) return std::move(program).status().context(writing());
  MGT_RETURN_IF_ERROR(check_scalars(model.who, *program, {}));
  return program;
}

// Calls `body(name, type)` for each trainable one of `parameters`, in the model's order.
template <class Body>
Status for_each_trainable(const Program& train, const std::set<std::string>& parameters,
                          Body&& body) {
  for (const auto& p : train.parameters) {
    const Value& value = train.values[p.value];
    if (p.trainable && parameters.contains(value.name))
      MGT_RETURN_IF_ERROR(body(value.name, value.type));
  }
  return {};
}

// A parameter as the optimizer's table describes it.
struct ParameterInfoTable {
  ParameterInfoTable(std::string_view name, const Type& type) {
    for (const auto& d : type.dims) dims.push_back({to_abi(d.axis), d.size});
    MGT_INIT(&table);
    table.name = to_abi(name);
    table.dtype = static_cast<mgt_dtype>(type.dtype);
    table.rank = static_cast<uint32_t>(type.rank());
    table.dims = dims.data();
  }
  ParameterInfoTable(const ParameterInfoTable&) = delete;
  ParameterInfoTable& operator=(const ParameterInfoTable&) = delete;
  std::vector<mgt_dim> dims;
  mgt_parameter_info table;
};

Result<std::vector<OptimizerState>> states_of(const OptimizerView& optimizer,
                                              const mgt_parameter_info& info) {
  mgt_state_desc states[MGT_MAX_OPTIMIZER_STATES];
  for (auto& state : states) MGT_INIT(&state);
  uint32_t count = MGT_MAX_OPTIMIZER_STATES;
  MGT_RETURN_IF_ERROR(
      from_abi(optimizer.table->states(optimizer.self, &info, states, &count), optimizer.who));
  const std::string parameter(from_abi(info.name));
  if (count > MGT_MAX_OPTIMIZER_STATES) {
    return broken_promise(optimizer.who,
                          text("describes ", count, " states of parameter '", parameter, "'"),
                          text("it may keep up to ", MGT_MAX_OPTIMIZER_STATES));
  }
  std::vector<OptimizerState> out;
  std::set<std::string_view> names;
  for (const mgt_state_desc& state : std::span(states).first(count)) {
    const std::string_view name = from_abi(state.name);
    if (name.empty() || !names.insert(name).second) {
      return broken_promise(optimizer.who,
                            text("calls a state of parameter '", parameter, "' '", name, "'"),
                            "checkpoints store a state by its name: it must have one of its own");
    }
    if (state.dtype != info.dtype) {
      return broken_promise(
          optimizer.who,
          text("describes state '", name, "' of parameter '", parameter, "' with the dtype ",
               dtype_name(static_cast<DType>(state.dtype)), " (number ", state.dtype, ")"),
          text("a state is like its parameter, ", dtype_name(static_cast<DType>(info.dtype))));
    }
    out.push_back({text(name, ".", parameter), parameter, state.initial});
  }
  return out;
}

// A value that an update leaves in the memory of a parameter or state.
struct Write {
  ValueId value;
  ValueId home;
  std::string_view what;
};

Status check_write(const OptimizerView& optimizer, const Program& p, const Write& w,
                   std::string_view parameter, const Type& type) {
  if (w.value < p.values.size() && p.type(w.value) == type) return {};
  return broken_promise(
      optimizer.who,
      text("makes a ", w.what, " of '", parameter, "' that is not a tensor like the parameter"),
      w.value < p.values.size()
          ? text("it is ", to_string(p.type(w.value)), ", the parameter ", to_string(type))
          : "the update program has no such value");
}

// A rule computes from what it is given; `parameters` were declared for it.
Status check_rule(const OptimizerView& optimizer, const Program& p, size_t parameters) {
  const auto refuse = [&](std::string_view what) {
    return broken_promise(optimizer.who, text("declares ", what, " in its update"),
                          "an update reads the parameter, its gradient, states and scalars, and "
                          "gives the new parameter and states");
  };
  if (!p.inputs.empty()) return refuse(text("the input '", p.values[p.inputs[0]].name, "'"));
  if (!p.outputs.empty()) return refuse(text("the output '", p.outputs[0].name, "'"));
  if (!p.losses.empty()) return refuse(text("the loss '", p.losses[0].name, "'"));
  if (p.parameters.size() != parameters) return refuse("a parameter of its own");
  return check_scalars(optimizer.who, p, {kLrScalar, kWeightDecayScalar, kStepScalar, kClipScalar});
}

// Values go to their homes as they are made where nothing reads the old content afterwards, and in
// a copy at the end of the update where something does.
void write_back(ProgramBuilder& b, std::vector<Write> writes) {
  Program& p = b.program();
  std::erase_if(writes, [](const Write& w) { return w.value == w.home; });  // unchanged
  for (auto w = writes.begin(); w != writes.end(); ++w) {
    const bool shared = std::any_of(
        writes.begin(), w, [&](const Write& earlier) { return earlier.value == w->value; });
    if (shared || p.values[w->value].kind != ValueKind::result)
      w->value = b.op1("copy", {w->value});
  }
  for (Write& w : writes) {
    const auto behind = p.nodes.begin() + p.values[w.value].producer + 1;
    const bool read_later = std::any_of(behind, p.nodes.end(), [&](const Node& n) {
      return std::find(n.inputs.begin(), n.inputs.end(), w.home) != n.inputs.end();
    });
    if (read_later) w.value = b.op1("copy", {w.value});
    p.values[w.value].into = w.home;
  }
}

}  // namespace

Result<Program> build_loss(const ModelView& model, int64_t batch_size) {
  MGT_ASSIGN_OR_RETURN(Program p, build_model_program(model, "loss", batch_size, 0));
  if (p.losses.empty()) {
    return broken_promise(model.who, "writes a program 'loss' without a loss term",
                          "training needs one: a sum over positions, and how many count");
  }
  if (!p.outputs.empty()) {
    return broken_promise(model.who,
                          text("writes a program 'loss' with the output '", p.outputs[0].name, "'"),
                          "the host reads its loss terms alone");
  }
  for (const ValueId v : p.inputs) {
    const Type& type = p.type(v);
    if (type.rank() > 0 && type.dims[0].size == batch_size) continue;
    return broken_promise(
        model.who,
        text("reads '", p.values[v].name, "' as ", to_string(type), " in program 'loss'"),
        text("the first dimension of a field is the batch, of ", batch_size));
  }
  return p;
}

Result<Program> build_logits(const ModelView& model, int64_t seq_length) {
  MGT_ASSIGN_OR_RETURN(Program p, build_model_program(model, "logits", 1, seq_length));
  const auto is_sequence = [&](const Type& type, DType dtype, size_t rank) {
    return type.dtype == dtype && type.rank() == rank && type.dims[0].size == 1 &&
           type.dims[1].size == seq_length;
  };
  for (const ValueId v : p.inputs) {
    const Value& input = p.values[v];
    if ((input.name == kTokensField || input.name == kPositionsField) &&
        is_sequence(input.type, DType::i32, 2))
      continue;
    return broken_promise(
        model.who,
        text("reads '", input.name, "' as ", to_string(input.type), " in program 'logits'"),
        text("the host feeds ", kTokensField, " and ", kPositionsField, ", i32[1, ", seq_length,
             "]"));
  }
  const std::string promise =
      text("the host reads its one output 'logits', f32[1, ", seq_length, ", vocab]");
  if (!p.losses.empty())
    return broken_promise(model.who, "writes a program 'logits' with a loss term", promise);
  if (p.outputs.size() != 1 || p.outputs[0].name != "logits") {
    std::string names;
    for (const auto& output : p.outputs) names += text(names.empty() ? "" : ", ", output.name);
    return broken_promise(model.who,
                          names.empty()
                              ? "writes a program 'logits' without outputs"
                              : text("writes a program 'logits' with the outputs ", names),
                          promise);
  }
  if (const Type& type = p.type(p.outputs[0].value); !is_sequence(type, DType::f32, 3)) {
    return broken_promise(model.who, text("writes 'logits' as ", to_string(type)), promise);
  }
  return p;
}

std::vector<std::string> gradient_states(const NameIndex& train, std::string_view parameter) {
  const std::string single = text(passes::kGradientPrefix, parameter);
  if (train.find(single) != kNone) return {single};
  std::vector<std::string> names;
  for (int use = 0; train.find(text(single, "@", use)) != kNone; ++use)
    names.push_back(text(single, "@", use));
  return names;
}

Result<Program> build_reduce(const Program& train, const std::set<std::string>& parameters) {
  ProgramBuilder b("reduce");
  const NameIndex names(train);
  b.set_phase(Phase::update);
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train, parameters, [&](const std::string& name, const Type& type) -> Status {
        ValueId sum = kNone;
        for (const auto& use : gradient_states(names, name)) {
          MGT_ASSIGN_OR_RETURN(const ValueId g, b.state(use, type));
          sum = sum == kNone ? g : b.op1("add", {sum, g});
        }
        MGT_ASSIGN_OR_RETURN(const ValueId home, b.state(text(kReducedPrefix, name), type));
        const ValueId reduced = b.op1("resolve", {sum});
        b.program().values[reduced].into = home;
        return b.output(text(kNormPrefix, name), b.op1("sum_squares", {reduced}));
      }));
  return std::move(b).finish();
}

Result<std::vector<OptimizerState>> optimizer_states(const Program& train,
                                                     const OptimizerView& optimizer) {
  std::vector<OptimizerState> out;
  for (const auto& p : train.parameters) {
    if (!p.trainable) continue;
    const Value& value = train.values[p.value];
    const ParameterInfoTable info(value.name, value.type);
    MGT_ASSIGN_OR_RETURN(const auto states, states_of(optimizer, info.table));
    out.insert(out.end(), states.begin(), states.end());
  }
  return out;
}

Result<UpdateProgram> build_update(const Program& train, const OptimizerView& optimizer,
                                   const std::set<std::string>& parameters) {
  UpdateProgram out;
  ProgramBuilder b("update");
  b.set_phase(Phase::update);
  const mgt_builder table = b.table();
  const ValueId clip = b.scalar(kClipScalar);
  const ValueId lr = b.scalar(kLrScalar);
  const ValueId weight_decay = b.scalar(kWeightDecayScalar);
  const ValueId step = b.scalar(kStepScalar);
  size_t trainable = 0;
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train, parameters, [&](const std::string& name, const Type& type) -> Status {
        ++trainable;
        ParameterInfoTable info(name, type);
        MGT_ASSIGN_OR_RETURN(const auto states, states_of(optimizer, info.table));
        const auto count = static_cast<uint32_t>(states.size());
        std::vector<mgt_value> old_states;
        for (const auto& state : states) {
          MGT_ASSIGN_OR_RETURN(const ValueId id, b.state(state.name, type));
          old_states.push_back(id);
          out.states.push_back(state);
        }
        MGT_ASSIGN_OR_RETURN(const ValueId parameter, b.parameter(name, type, {}));
        MGT_ASSIGN_OR_RETURN(const ValueId gradient, b.state(text(kReducedPrefix, name), type));

        std::vector<mgt_value> new_states(count);
        mgt_update update;
        MGT_INIT(&update);
        update.state_count = count;
        update.info = &info.table;
        update.parameter = parameter;
        update.gradient = b.op1("mul", {gradient, clip});
        update.lr = lr;
        update.weight_decay = weight_decay;
        update.step = step;
        update.states = old_states.data();
        update.new_states = new_states.data();
        MGT_RETURN_IF_ERROR(
            from_abi(optimizer.table->build_update(optimizer.self, &table, &update), optimizer.who)
                .context(text(optimizer.who, " writes the update of '", name, "'")));

        std::vector<Write> writes = {{update.new_parameter, parameter, "new parameter"}};
        for (uint32_t i = 0; i < count; ++i)
          writes.push_back({new_states[i], old_states[i], "new state"});
        for (const Write& w : writes)
          MGT_RETURN_IF_ERROR(check_write(optimizer, b.program(), w, name, type));
        write_back(b, std::move(writes));
        return {};
      }));
  MGT_RETURN_IF_ERROR(check_rule(optimizer, b.program(), trainable));
  auto program = std::move(b).finish();
  if (!program.ok())
    return std::move(program).status().context(text(optimizer.who, " writes the update"));
  out.program = *std::move(program);
  return out;
}

}  // namespace megatron::train
