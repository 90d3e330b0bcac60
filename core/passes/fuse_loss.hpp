// Makes one op of the loss and its gradient, so that the logits are computed once a step. Possible
// where the loss's seeds are known before it (they come from the batch's counts) and the vocabulary
// is held whole.
#pragma once

#include "graph/ir.hpp"

namespace megatron::passes {

Status fuse_loss(graph::Program& program);

}  // namespace megatron::passes
