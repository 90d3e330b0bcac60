// From plugins to logical programs: what a model and an optimizer write, differentiated and
// completed. Nothing here knows a layout.
#pragma once

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
};
struct OptimizerView {
  const mgt_optimizer* table = nullptr;
  void* self = nullptr;
};

// Scalars of the update program.
inline constexpr std::string_view kClipScalar = "clip_coefficient";
inline constexpr std::string_view kLrScalar = "lr";
inline constexpr std::string_view kWeightDecayScalar = "weight_decay";
inline constexpr std::string_view kStepScalar = "step";
// Output of the gradient-norm program: Σ over parameters of ‖gradient‖².
inline constexpr std::string_view kNormOutput = "grad_norm_squared";

// The program that the model calls `program`, as it writes it. seq_length 0 = the model's own.
Result<graph::Program> build_model_program(const ModelView& model, std::string_view program,
                                           int64_t batch_size, int64_t seq_length = 0);

// Adds up the gradients of a parameter's uses (in the memory of the first) and squares. Parameters
// come in the model's order, so that the sum is the same in every layout.
Result<graph::Program> build_gradient_norm(const graph::Program& train);

// A state tensor that the optimizer keeps for a parameter.
struct OptimizerState {
  std::string name;  // "exp_avg.<parameter>"
  std::string parameter;
  double initial = 0;
};

struct UpdateProgram {
  graph::Program program;
  std::vector<OptimizerState> states;  // in the order of parameters
};
// The optimizer's rule for every trainable parameter of the differentiated program.
Result<UpdateProgram> build_update(const graph::Program& train, const OptimizerView& optimizer);

}  // namespace megatron::train
