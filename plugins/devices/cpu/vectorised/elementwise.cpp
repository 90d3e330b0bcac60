// Element-wise ops and fused chains through the block evaluator.
#include "elementwise/block_program.hpp"
#include "elementwise/broadcast.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {

std::unique_ptr<Kernel> elementwise(const KernelDesc& desc, const Host& host, std::string& reason) {
  if (!is_f32(desc, reason)) return nullptr;
  BlockProgram program(expression_of(desc), broadcast_periods(desc), desc.outputs[0]);
  const uint64_t bytes = program.workspace_bytes(host.workers());
  return make_kernel(kName, bytes, [program = std::move(program), host](const Launch& l) {
    program.run(host, l);
  });
}

}  // namespace megatron::cpu::vectorised
