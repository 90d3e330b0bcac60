// Runs passes in order and verifies after each; an error names the pass.
#pragma once

#include <span>
#include <string_view>

#include "graph/ir.hpp"

namespace megatron::passes {

struct Pass {
  std::string_view name;
  Status (*run)(graph::Program& program);
};

Status run_passes(graph::Program& program, std::span<const Pass> passes);

// What every training program goes through after autodiff and partitioning.
std::span<const Pass> optimisation_passes();

}  // namespace megatron::passes
