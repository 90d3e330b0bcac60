#include "train/model_programs.hpp"

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "passes/autodiff.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

// Names of the gradient states of a parameter, in the order of use.
std::vector<std::string> gradient_states(const Program& train, std::string_view parameter) {
  const std::string single = text(passes::kGradientPrefix, parameter);
  if (train.find(single) != kNone) return {single};
  std::vector<std::string> names;
  for (int use = 0; train.find(text(single, "@", use)) != kNone; ++use)
    names.push_back(text(single, "@", use));
  return names;
}

// Calls `body(name, type, gradient state names)` for each trainable parameter.
template <class Body>
Status for_each_trainable(const Program& train, Body&& body) {
  for (const auto& p : train.parameters) {
    if (!p.trainable) continue;
    const Value& value = train.values[p.value];
    MGT_RETURN_IF_ERROR(body(value.name, value.type, gradient_states(train, value.name)));
  }
  return {};
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

Result<Program> build_gradient_norm(const Program& train) {
  ProgramBuilder b("gradient_norm");
  b.set_phase(Phase::update);
  std::vector<ValueId> squares;
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train,
      [&](const std::string&, const Type& type, const std::vector<std::string>& states) -> Status {
        ValueId sum = kNone;
        ValueId first = kNone;
        for (const auto& name : states) {
          MGT_ASSIGN_OR_RETURN(const ValueId g, b.state(name, type));
          if (first == kNone) first = g;
          sum = sum == kNone ? g : b.op1("add", {sum, g});
        }
        if (states.size() > 1) b.program().values[sum].into = first;
        squares.push_back(b.op1("sum_squares", {sum}));
        return {};
      }));
  const ValueId total = b.op1("sum", {b.op1("pack", squares)});
  MGT_RETURN_IF_ERROR(b.output(kNormOutput, total));
  return std::move(b).finish();
}

Result<UpdateProgram> build_update(const Program& train, const OptimizerView& optimizer) {
  UpdateProgram out;
  ProgramBuilder b("update");
  b.set_phase(Phase::update);
  const mgt_builder table = b.table();
  const ValueId clip = b.scalar(kClipScalar);
  const ValueId lr = b.scalar(kLrScalar);
  const ValueId weight_decay = b.scalar(kWeightDecayScalar);
  const ValueId step = b.scalar(kStepScalar);
  MGT_RETURN_IF_ERROR(for_each_trainable(
      train,
      [&](const std::string& name, const Type& type,
          const std::vector<std::string>& grads) -> Status {
        std::vector<mgt_dim> dims;
        for (const auto& d : type.dims) dims.push_back({to_abi(d.axis), d.size});
        mgt_parameter_info info;
        MGT_INIT(&info);
        info.name = to_abi(name);
        info.dtype = static_cast<mgt_dtype>(type.dtype);
        info.rank = static_cast<uint32_t>(type.rank());
        info.dims = dims.data();

        mgt_state_desc states[MGT_MAX_OPTIMIZER_STATES];
        uint32_t count = MGT_MAX_OPTIMIZER_STATES;
        MGT_RETURN_IF_ERROR(from_abi(optimizer.table->states(optimizer.self, &info, states, &count),
                                     "the optimizer plugin"));
        std::vector<mgt_value> old_states;
        for (uint32_t i = 0; i < count; ++i) {
          const std::string state = text(from_abi(states[i].name), ".", name);
          MGT_ASSIGN_OR_RETURN(const ValueId id, b.state(state, type));
          old_states.push_back(id);
          out.states.push_back({state, name, states[i].initial});
        }
        MGT_ASSIGN_OR_RETURN(const ValueId parameter, b.parameter(name, type, {}));
        MGT_ASSIGN_OR_RETURN(const ValueId gradient, b.state(grads[0], type));

        std::vector<mgt_value> new_states(count);
        mgt_update update;
        MGT_INIT(&update);
        update.state_count = count;
        update.info = &info;
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

        Program& p = b.program();
        const auto write = [&](ValueId value, ValueId home, std::string_view what) -> Status {
          if (value >= p.values.size() || p.type(value).dims != type.dims) {
            return invalid_argument(text("the optimizer's ", what, " of '", name,
                                         "' does not have the parameter's shape"),
                                    value < p.values.size() ? text(to_string(p.type(value)),
                                                                   " in place of ", to_string(type))
                                                            : "no such value");
          }
          if (value == home) return {};  // unchanged
          if (p.values[value].kind != ValueKind::result || p.values[value].into != kNone)
            value = b.op1("copy", {value});
          p.values[value].into = home;
          return {};
        };
        MGT_RETURN_IF_ERROR(write(update.new_parameter, parameter, "new parameter"));
        for (uint32_t i = 0; i < count; ++i)
          MGT_RETURN_IF_ERROR(write(new_states[i], old_states[i], "new state"));
        return {};
      }));
  MGT_ASSIGN_OR_RETURN(out.program, std::move(b).finish());
  return out;
}

}  // namespace megatron::train
