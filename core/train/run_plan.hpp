// What a run will need, known from its compiled programs before anything is started: for any number
// of ranks, on any machine that has the device's plugin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/layout.hpp"
#include "train/engine.hpp"
#include "train/experiment.hpp"
#include "train/run_folder.hpp"

namespace megatron::train {

// What one rank hands to a kind of communication in a step.
struct Traffic {
  std::string axis;  // mesh axis
  std::string op;    // "all_reduce", …
  int64_t calls = 0;
  int64_t bytes = 0;  // the larger of operand and result, summed over the calls
};

// A rank that stands for all with its place in the pipeline.
struct StagePlan {
  int64_t rank = 0;
  int64_t stage = 0;
  int64_t parameters = 0;  // elements that the rank holds
  MemoryReport memory;
  double flops = 0;  // of a step
  std::vector<Traffic> traffic;
};

struct RunPlan {
  passes::Layout layout;
  int64_t parameters = 0;         // of the model
  int64_t global_batch_size = 0;  // samples a step
  int64_t micro_batches = 0;      // of a data rank's share of a step
  double flops = 0;               // of a step, all ranks of the logical model
  std::vector<StagePlan> stages;
};

// Refuses what a run in the folder `directory` would refuse: impossible layouts, plugins that
// refuse their options, programs that cannot be built, ops that the device has no kernel for,
// datasets that cannot be opened, a folder that cannot be the run's, a checkpoint that does not
// fit. Changes nothing on the disk but the datasets' caches. `use` as RunFolder::check takes it.
Result<RunPlan> plan_run(Experiment& experiment, const passes::Layout& layout,
                         const std::string& directory, std::optional<RunFolder::Use> use,
                         const RunFolder::Warn& warn);

// "pipeline 2 · data 4"; axes of size 1 are left out.
std::string describe_mesh(const passes::Layout& layout);

}  // namespace megatron::train
