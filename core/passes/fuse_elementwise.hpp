// Joins chains of element-wise nodes of one shape into `fused` nodes: each element is then read and
// written once. The producer sinks to its consumer, which is legal when nothing in between reads
// it.
#pragma once

#include "graph/ir.hpp"

namespace megatron::passes {

Status fuse_elementwise(graph::Program& program);

}  // namespace megatron::passes
