// What a manifest's [train], [optimizer] and [checkpoint] ask of the loop and of a rank's programs.
#pragma once

#include <cstdint>

#include "passes/layout.hpp"
#include "train/experiment.hpp"
#include "train/loop.hpp"
#include "train/rank_programs.hpp"

namespace megatron::train {

// Ranks that have micro-batches of their own, and which of them a rank is.
int64_t data_ranks(const passes::Layout& layout);
int64_t data_rank(const passes::Layout& layout, int64_t rank);

// Errors: batch sizes that do not divide, contradictory schedules; each at its line of the
// manifest.
Result<LoopOptions> loop_options(const Experiment& experiment, const passes::Layout& layout);

// For rank 0; makes the model and the optimizer.
Result<RankRequest> rank_request(Experiment& experiment, const passes::Layout& layout,
                                 const LoopOptions& loop);

// The splits that the loop reads, with these fields; `valid` is null in a run without evaluation.
struct RunData {
  const Instance<mgt_dataset>* train = nullptr;
  const Instance<mgt_dataset>* valid = nullptr;
};
Result<RunData> open_datasets(Experiment& experiment, const LoopOptions& loop,
                              const std::vector<Field>& fields);

}  // namespace megatron::train
