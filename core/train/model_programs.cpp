#include "train/model_programs.hpp"

#include <algorithm>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "passes/autodiff.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

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
  uint32_t count = MGT_MAX_OPTIMIZER_STATES;
  MGT_RETURN_IF_ERROR(from_abi(optimizer.table->states(optimizer.self, &info, states, &count),
                               "the optimizer plugin"));
  std::vector<OptimizerState> out;
  const std::string parameter(from_abi(info.name));
  for (uint32_t i = 0; i < count; ++i)
    out.push_back({text(from_abi(states[i].name), ".", parameter), parameter, states[i].initial});
  return out;
}

// A value that an update leaves in the memory of a parameter or state.
struct Write {
  ValueId value;
  ValueId home;
  std::string_view what;
};

Status check_write(const Program& p, const Write& w, std::string_view parameter, const Type& type) {
  if (w.value < p.values.size() && p.type(w.value) == type) return {};
  return invalid_argument(
      text("the optimizer's ", w.what, " of '", parameter, "' is not a tensor like the parameter"),
      w.value < p.values.size()
          ? text("it is ", to_string(p.type(w.value)), ", the parameter ", to_string(type))
          : "the update program has no such value",
      "report it to the optimizer plugin's author");
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

Result<Program> build_model_program(const ModelView& model, std::string_view name,
                                    int64_t batch_size, int64_t seq_length) {
  ProgramBuilder builder{std::string(name)};
  builder.restrict_to_public_ops();
  const mgt_builder table = builder.table();
  mgt_program_request request;
  MGT_INIT(&request);
  request.program = to_abi(name);
  request.batch_size = batch_size;
  request.seq_length = seq_length;
  MGT_RETURN_IF_ERROR(from_abi(model.table->build(model.self, &request, &table), "the model plugin")
                          .context(text("the model writes program '", name, "'")));
  return std::move(builder).finish();
}

std::vector<std::string> gradient_states(const Program& train, std::string_view parameter) {
  const std::string single = text(passes::kGradientPrefix, parameter);
  if (train.find(single) != kNone) return {single};
  std::vector<std::string> names;
  for (int use = 0; train.find(text(single, "@", use)) != kNone; ++use)
    names.push_back(text(single, "@", use));
  return names;
}

Result<Program> build_reduce(const Program& train, const std::set<std::string>& parameters) {
  ProgramBuilder b("reduce");
  b.set_phase(Phase::update);
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train, parameters, [&](const std::string& name, const Type& type) -> Status {
        ValueId sum = kNone;
        for (const auto& use : gradient_states(train, name)) {
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
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train, parameters, [&](const std::string& name, const Type& type) -> Status {
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
        MGT_RETURN_IF_ERROR(from_abi(optimizer.table->build_update(optimizer.self, &table, &update),
                                     "the optimizer plugin")
                                .context(text("the optimizer writes the update of '", name, "'")));

        std::vector<Write> writes = {{update.new_parameter, parameter, "new parameter"}};
        for (uint32_t i = 0; i < count; ++i)
          writes.push_back({new_states[i], old_states[i], "new state"});
        for (const Write& w : writes) MGT_RETURN_IF_ERROR(check_write(b.program(), w, name, type));
        write_back(b, std::move(writes));
        return {};
      }));
  MGT_ASSIGN_OR_RETURN(out.program, std::move(b).finish());
  return out;
}

}  // namespace megatron::train
