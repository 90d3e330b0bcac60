// Small passes that remove nodes.
#pragma once

#include "graph/ir.hpp"

namespace megatron::passes {

// Evaluation and generation: dropout becomes the identity, attention keeps all probabilities.
Status strip_dropout(graph::Program& program);

// Removes nodes whose results nothing reads and that write no parameter, state or message.
Status eliminate_dead_nodes(graph::Program& program);

}  // namespace megatron::passes
