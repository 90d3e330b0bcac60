// Parameters that several pipeline stages read (tied embeddings). Each stage keeps a copy and makes
// the gradient of its own uses; before the gradients are added up, stages tell each other theirs,
// so that every copy is updated by the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir.hpp"
#include "passes/pipeline_cut.hpp"

namespace megatron::train {

struct TiedUses {
  std::map<std::string, std::vector<int64_t>, std::less<>> holders;  // parameter -> pipeline ranks,
                                                                     // ascending
  std::map<std::string, int64_t, std::less<>> writer;  // gradient state -> pipeline rank
};

// Of a rank's differentiated program before it is cut.
TiedUses tied_uses(const graph::Program& train, const passes::PipelineCut& cut);

// Gradient states of `reduce` that another rank writes are received from it; those that this rank
// writes and another one reads are sent.
Status exchange_tied(graph::Program& reduce, const TiedUses& uses, const std::string& axis,
                     int64_t rank);

}  // namespace megatron::train
