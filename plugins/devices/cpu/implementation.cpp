#include "implementation.hpp"

#include <algorithm>

namespace megatron::cpu {

std::unique_ptr<Kernel> prepare_kernel(const KernelDesc& desc, const Host& host,
                                       std::string_view only) {
  const auto rows = op_rows();
  const auto row = std::ranges::find(rows, std::string_view(desc.op), &OpRow::op);
  if (row == rows.end()) {
    throw StatusError(Status::error(Code::unimplemented,
                                    text("device 'cpu' has no kernel for op '", desc.op, "'"),
                                    "the op is not in the device's table",
                                    "use a device that has it, or add a row to op_table.cpp"));
  }
  check_labels(row->labels, desc);
  std::string reasons;
  for (const auto& implementation : row->implementations) {
    if (!only.empty() && implementation.name != only) continue;
    std::string reason;
    auto kernel = implementation.make(desc, host, reason);
    if (kernel != nullptr) {
      if (!reasons.empty()) {
        host.log(MGT_LOG_DEBUG,
                 text("op '", desc.op, "' runs on '", kernel->implementation(), "': ", reasons));
      }
      return kernel;
    }
    reasons += text(reasons.empty() ? "" : "; ", "'", implementation.name, "' declined: ", reason);
  }
  std::string shapes;
  for (const auto& t : desc.inputs) shapes += text(shapes.empty() ? "" : ", ", t.to_string());
  throw StatusError(Status::error(
      Code::unimplemented, text("no implementation of op '", desc.op, "' takes (", shapes, ")"),
      reasons, "change the shape or the element type named above"));
}

}  // namespace megatron::cpu
