// From plugins to logical programs: what a model and an optimizer write, checked against what their
// tables promise, and completed. Nothing here knows a layout.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "megatron/abi/model.h"
#include "megatron/abi/optimizer.h"

namespace megatron::train {

// A model plugin's instance; owned by whoever made it.
struct ModelView {
  const mgt_model* table = nullptr;
  void* self = nullptr;
  std::string who = "the model plugin";  // in messages
};
struct OptimizerView {
  const mgt_optimizer* table = nullptr;
  void* self = nullptr;
  std::string who = "the optimizer plugin";
};

// Scalars of the update program.
inline constexpr std::string_view kClipScalar = "clip_coefficient";
inline constexpr std::string_view kLrScalar = "lr";
inline constexpr std::string_view kWeightDecayScalar = "weight_decay";
inline constexpr std::string_view kStepScalar = "step";
// State with a parameter's gradient over the global batch, + the parameter's name.
inline constexpr std::string_view kReducedPrefix = "reduced.";
// Output of the reduce program with ‖gradient‖², + the parameter's name.
inline constexpr std::string_view kNormPrefix = "norm.";

// The model's program "loss": loss terms over fields [batch_size, sample...].
Result<graph::Program> build_loss(const ModelView& model, int64_t batch_size);

// What the host feeds to the program "logits", each i32 [1, seq_length].
inline constexpr std::string_view kTokensField = "tokens";
inline constexpr std::string_view kPositionsField = "position_ids";
// The model's program "logits": one output f32 [1, seq_length, vocab].
Result<graph::Program> build_logits(const ModelView& model, int64_t seq_length);

// Names of the gradient states of a parameter, in the order of use.
std::vector<std::string> gradient_states(const graph::NameIndex& train, std::string_view parameter);

// For each of `parameters` that is trainable: the gradients of its uses added up in their order, as
// "reduced.<parameter>", and the squared norm.
Result<graph::Program> build_reduce(const graph::Program& train,
                                    const std::set<std::string>& parameters);

// A state tensor that the optimizer keeps for a parameter.
struct OptimizerState {
  std::string name;  // "exp_avg.<parameter>"
  std::string parameter;
  double initial = 0;
};

// What the optimizer keeps for each trainable parameter, in the model's order.
Result<std::vector<OptimizerState>> optimizer_states(const graph::Program& train,
                                                     const OptimizerView& optimizer);

struct UpdateProgram {
  graph::Program program;
  std::vector<OptimizerState> states;  // in the order of parameters
};
// The optimizer's rule for each of `parameters` that is trainable, from its reduced gradient.
Result<UpdateProgram> build_update(const graph::Program& train, const OptimizerView& optimizer,
                                   const std::set<std::string>& parameters);

}  // namespace megatron::train
