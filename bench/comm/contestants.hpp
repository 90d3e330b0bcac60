// The libraries that are compared, each as one function: a collective over all ranks on f32,
// summed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unit/comm/world.hpp"

namespace megatron::bench {

enum class Kind { all_reduce, reduce_scatter, all_gather };

struct Contestant {
  std::string name;
  // Prepares `elements` (of the whole vector, divisible by the ranks); what it returns runs the
  // collective once, in place where the library can.
  std::function<std::function<void()>(Kind kind, uint64_t elements)> prepare;
};

// This project's: in allocated memory, and in plain memory.
std::vector<Contestant> own_contestants(test::Rank& rank, const test::GroupHandle& group,
                                        uint64_t max_elements);
Contestant mpi_contestant(uint64_t max_elements);
// Over TCP on the loopback device, as Debian builds it; values of its rendezvous are files.
Contestant gloo_contestant(uint32_t rank, uint32_t ranks, const std::string& folder,
                           uint64_t max_elements);

}  // namespace megatron::bench
