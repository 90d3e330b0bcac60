// In which order a pipeline rank runs the forward and backward passes of a step's micro-batches.
// Every schedule runs the backward passes of a chunk in ascending order of micro-batches, so that
// gradients add up in the same order and all schedules give the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::train {

enum class ScheduleKind : uint8_t {
  gpipe,        // all forward, then all backward (Huang et al. 2018, arXiv:1811.06965)
  one_f_one_b,  // at most stages − rank micro-batches in flight (Narayanan et al. 2021,
                // arXiv:2006.09503)
  interleaved,  // several chunks of layers a rank (Narayanan et al. 2021, arXiv:2104.04473)
  zero_bubble,  // ZB-H1: weight gradients wait and fill the bubbles (Qi et al. 2023,
                // arXiv:2401.10241)
};
Result<ScheduleKind> parse_schedule(const std::string& name);

struct PipelineAction {
  enum class Kind : uint8_t { forward, backward, weight };
  Kind kind;
  int64_t chunk;        // of this rank
  int64_t micro_batch;  // of this rank's share of the step
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int64_t stages = 1;
  int64_t chunks = 1;  // a rank; chunk c of rank r is virtual stage c·stages + r
  int64_t micro_batches = 1;
};

// What cannot be scheduled: one message with the two numbers.
Status check_shape(const PipelineShape& shape);

// `weight` actions only occur with zero_bubble; elsewhere `backward` does both.
std::vector<PipelineAction> schedule_of(const PipelineShape& shape, int64_t rank);

// Most micro-batches of a chunk whose forward pass has run and whose gradients are not all done:
// how many sets of saved activations the chunk needs.
int64_t slots_of(const std::vector<PipelineAction>& actions, int64_t chunk);

// Runs all ranks' lists against each other, forward and backward messages included: an error names
// the first rank that would wait for ever. Exposed for tests and for planning.
Status check_progress(const PipelineShape& shape);

}  // namespace megatron::train
