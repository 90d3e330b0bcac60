// Edits that several passes share.
#pragma once

#include <vector>

#include "graph/ir.hpp"

namespace megatron::graph {

// The program without the nodes that are not `live` and without results and constants that nothing
// reads.
Program keep_nodes(const Program& program, const std::vector<bool>& live);

// Puts `nodes` in the place of the program's own; values that none of them makes any more go.
void replace_nodes(Program& program, std::vector<Node> nodes);

// The program without outputs and losses that no node makes, and without parameters, states and
// inputs that no node reads or writes: what is left when a program was cut into parts.
Program drop_unused(Program program);

// Nodes that read each value, ascending.
std::vector<std::vector<NodeId>> users_of(const Program& program);

// Values that outputs and losses name.
std::vector<bool> exported_values(const Program& program);

// Every later reader of `from` reads `to`.
void replace_uses(Program& program, ValueId from, ValueId to);

}  // namespace megatron::graph
