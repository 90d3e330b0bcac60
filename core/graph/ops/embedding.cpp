// Rows of a table by id, and the scatter-add that is its gradient.
#include <algorithm>

#include "graph/op.hpp"

namespace megatron::graph {
namespace {

Status refuse(std::string_view op, std::span<const Type> inputs, std::string_view wanted) {
  std::string got;
  for (const auto& t : inputs) got += (got.empty() ? "" : ", ") + to_string(t);
  return invalid_argument(text("op '", op, "' cannot take (", got, ")"), text("it takes ", wanted),
                          "docs/ops.md has the shapes and types of its operands");
}

Result<std::vector<Type>> infer_embedding(const Attrs&, std::span<const Type> inputs) {
  if (inputs.size() != 2 || inputs[0].dtype != DType::i32 || inputs[1].dtype != DType::f32 ||
      inputs[1].rank() < 1) {
    return refuse("embedding", inputs, "ids i32[M...] and a table f32[vocab, K...]");
  }
  Type out{DType::f32, inputs[0].dims};
  out.dims.insert(out.dims.end(), inputs[1].dims.begin() + 1, inputs[1].dims.end());
  return std::vector<Type>{out};
}

Result<std::vector<Type>> infer_embedding_grad(const Attrs& attrs, std::span<const Type> inputs) {
  const auto leading_equal = [&] {
    return std::equal(inputs[0].dims.begin(), inputs[0].dims.end(), inputs[1].dims.begin(),
                      [](const Dim& a, const Dim& b) { return a.size == b.size; });
  };
  if (inputs.size() != 2 || inputs[0].dtype != DType::i32 || inputs[1].dtype != DType::f32 ||
      inputs[1].rank() < inputs[0].rank() || !leading_equal()) {
    return refuse("embedding_grad", inputs, "ids i32[M...] and dy f32[M..., K...]");
  }
  Type out{DType::f32, {{int_attr(attrs, "vocab"), string_attr(attrs, "axis")}}};
  const auto first = inputs[1].dims.begin() + static_cast<std::ptrdiff_t>(inputs[0].rank());
  out.dims.insert(out.dims.end(), first, inputs[1].dims.end());
  return std::vector<Type>{out};
}

void embedding_gradient(GradientScope& s) {
  if (!s.needs(1)) return;
  const Dim& vocab = s.type(s.in(1)).dims[0];
  s.set(1, s.emit1("embedding_grad", {s.in(0), s.grad(0)},
                   {{"vocab", vocab.size}, {"axis", vocab.axis}}));
}

}  // namespace

void add_embedding_ops(std::vector<OpDef>& table) {
  table.push_back({.name = "embedding",
                   .pattern = "M,vK->MK",
                   .linear = 0b10,
                   .ids = 0b1,
                   .ids_of = 'v',
                   .infer = infer_embedding,
                   .gradient = embedding_gradient});
  table.push_back({.name = "embedding_grad",
                   .pattern = "M,MK->vK",
                   .attrs = {{"vocab", AttrKind::integer}, {"axis", AttrKind::string}},
                   .linear = 0b10,
                   .ids = 0b1,
                   .ids_of = 'v',
                   .accumulates = 0b1,
                   .infer = infer_embedding_grad});
}

}  // namespace megatron::graph
