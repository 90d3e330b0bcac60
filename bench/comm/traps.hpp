// One case for each trap that measurements found on this kind of machine.
#pragma once

#include "unit/comm/world.hpp"

namespace megatron::bench {

void show_traps(test::Rank& rank, const test::GroupHandle& group);

}  // namespace megatron::bench
