// Everything that one rank of a run executes, as programs: the model differentiated, partitioned,
// cut into pipeline stages and optimised, with the gradient's reduction and the optimizer's rule.
// Nothing here needs a device or another rank: `run` compiles it, `check` and `graph dump` read it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "passes/layout.hpp"
#include "passes/local_runs.hpp"
#include "train/field.hpp"
#include "train/model_programs.hpp"
#include "train/pipeline_schedule.hpp"

namespace megatron::train {

struct RankRequest {
  ModelView model;
  OptimizerView optimizer;  // null table: no training
  passes::Layout layout;
  int64_t rank = 0;
  int64_t micro_batch_size = 1;
  int64_t micro_batches = 1;  // of a step, for each data rank
  bool train = true;
  bool evaluate = true;
  // Builds "logits" for one sequence of this many tokens; 0 = no.
  int64_t logits_length = 0;
};

// A tensor that lives across steps, as checkpoints see it.
struct PersistentTensor {
  std::string name;
  graph::Type logical;
  graph::Type local;
  passes::Placement placement;
  std::vector<passes::Run> runs;
  graph::Initializer init;
  // This rank's copy is the one that checkpoints hold.
  bool owned = true;
  // It takes the memory of this tensor, whose content is no longer needed; "" = has its own.
  std::string shares;
  void* home = nullptr;
};

struct NamedType {
  std::string name;
  graph::Type type;
};

// The programs of one chunk of layers. Without a pipeline `backward` holds the forward pass too.
struct ChunkPrograms {
  graph::Program forward, backward, weight, evaluate;
};

// A squared gradient norm that the reduce program gives: this rank's share of it.
struct NormTerm {
  std::string parameter;
  graph::ValueId value;
  std::vector<bool> adds;  // of each mesh axis: shares of its ranks add up; else all have the whole
};

struct RankPrograms {
  std::vector<int64_t> coordinates;
  PipelineShape pipeline;
  std::vector<PipelineAction> schedule;  // of a step
  std::vector<ChunkPrograms> chunks;
  graph::Program counts;  // of the loss terms, from a micro-batch's inputs
  graph::Program reduce;  // gradients to "reduced.<parameter>", and their squared norms
  graph::Program update;
  graph::Program logits;

  std::vector<PersistentTensor> parameters;
  std::vector<PersistentTensor> gradients;  // accumulators, one a use
  std::vector<PersistentTensor> optimizer_states;
  std::vector<PersistentTensor> reduced;  // gradients over the global batch
  std::vector<NormTerm> norms;
  // Of the whole model, in its order, whatever this rank holds: what checkpoints contain.
  std::vector<NamedType> all_parameters;
  std::vector<NamedType> all_optimizer_states;

  int64_t parameter_count = 0;  // of the whole model
  double train_flops = 0;  // of one micro-batch, all stages and ranks of a model replica together
  std::vector<Field> inputs;  // that training and evaluation read on this rank
  std::vector<Field> logits_inputs;
  std::vector<graph::LossTerm> losses;
  // Of each loss term: whether this rank's number enters the sum over ranks. Where ranks hold the
  // same one, the first does.
  struct Owned {
    bool sum, count;
  };
  std::vector<bool> counts_owned;   // of the counts program
  std::vector<Owned> losses_owned;  // empty: the losses are on another stage
};

Result<RankPrograms> build_rank_programs(const RankRequest& request);

// "tokens#1" is another placement of the field "tokens".
std::string_view field_of(std::string_view input);

// The axis whose ranks have micro-batches of their own; "" = none.
std::string instance_axis(const passes::Layout& layout);

}  // namespace megatron::train
