#include "passes/pipeline.hpp"

#include "graph/verifier.hpp"
#include "passes/cleanup.hpp"
#include "passes/fuse_elementwise.hpp"
#include "passes/fuse_loss.hpp"

namespace megatron::passes {

Status run_passes(graph::Program& program, std::span<const Pass> passes) {
  for (const auto& pass : passes) {
    MGT_RETURN_IF_ERROR(pass.run(program).context(
        text("applying pass '", pass.name, "' to program '", program.name, "'")));
    MGT_RETURN_IF_ERROR(graph::verify(program).context(
        text("verifying program '", program.name, "' after pass '", pass.name, "'")));
  }
  return {};
}

std::span<const Pass> optimisation_passes() {
  static constexpr Pass kPasses[] = {
      {"eliminate_dead_nodes", eliminate_dead_nodes},
      {"fuse_loss", fuse_loss},
      {"fuse_elementwise", fuse_elementwise},
  };
  return kPasses;
}

}  // namespace megatron::passes
