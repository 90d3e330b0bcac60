// Rows of a table by id, and the scatter-add that is its gradient.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

Status check_ids(const Type& ids) {
  if (ids.dtype == DType::i32) return {};
  return invalid_argument("embedding takes ids of type i32", text("got ", to_string(ids)));
}

Result<std::vector<Type>> infer_embedding(const Attrs&, std::span<const Type> inputs) {
  if (inputs.size() != 2 || inputs[1].rank() < 1) {
    return invalid_argument("embedding takes ids[M...] and table[vocab, K...]");
  }
  MGT_RETURN_IF_ERROR(check_ids(inputs[0]));
  Type out{DType::f32, inputs[0].dims};
  out.dims.insert(out.dims.end(), inputs[1].dims.begin() + 1, inputs[1].dims.end());
  return std::vector<Type>{out};
}

Result<std::vector<Type>> infer_embedding_grad(const Attrs& attrs, std::span<const Type> inputs) {
  if (inputs.size() != 2 || inputs[1].rank() < inputs[0].rank()) {
    return invalid_argument("embedding_grad takes ids[M...] and dy[M..., K...]");
  }
  MGT_RETURN_IF_ERROR(check_ids(inputs[0]));
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
                   .infer = infer_embedding,
                   .gradient = embedding_gradient});
  table.push_back({.name = "embedding_grad",
                   .pattern = "M,MK->vK",
                   .attrs = {{"vocab", AttrKind::integer}, {"axis", AttrKind::string}},
                   .linear = 0b10,
                   .accumulates = 0b1,
                   .infer = infer_embedding_grad});
}

}  // namespace megatron::graph
