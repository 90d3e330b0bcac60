// First look at a kernel's description: are the operands there, and of which element type?
#pragma once

#include <string>

#include "megatron/device.hpp"

namespace megatron::cpu {

inline void expect(bool condition, const KernelDesc& desc, std::string_view cause) {
  if (condition) return;
  std::string shapes;
  for (const auto& t : desc.inputs) shapes += text(shapes.empty() ? "(" : ", ", t.to_string());
  for (const auto& t : desc.outputs) {
    shapes += text(&t == desc.outputs.data() ? ") -> " : ", ", t.to_string());
  }
  throw StatusError(invalid_argument(text("op '", desc.op, "' cannot be prepared for ", shapes),
                                     cause, "see the op's row in docs/ops.md"));
}

inline void expect_operands(const KernelDesc& desc, size_t inputs, size_t outputs) {
  expect(desc.inputs.size() == inputs, desc,
         text("it has ", desc.inputs.size(), " tensor inputs and the op takes ", inputs));
  expect(desc.outputs.size() == outputs, desc,
         text("it has ", desc.outputs.size(), " outputs and the op gives ", outputs));
}

// Every tensor f32 but input `ids`, which is i32; sets the reason otherwise.
inline bool is_f32(const KernelDesc& desc, std::string& reason, size_t ids = ~size_t{0}) {
  for (size_t i = 0; i < desc.inputs.size(); ++i) {
    const DType wanted = i == ids ? DType::i32 : DType::f32;
    if (desc.inputs[i].dtype == wanted) continue;
    reason = text("input ", i, " is ", dtype_name(desc.inputs[i].dtype), ", it takes ",
                  dtype_name(wanted));
    return false;
  }
  for (size_t o = 0; o < desc.outputs.size(); ++o) {
    if (desc.outputs[o].dtype == DType::f32) continue;
    reason = text("output ", o, " is ", dtype_name(desc.outputs[o].dtype), ", it gives f32");
    return false;
  }
  return true;
}

}  // namespace megatron::cpu
