// Local rearrangements that the partitioner inserts, and the fused element-wise chain.
// A cut dimension is addressed as IndexMap::identity(size).cut(cut, parts, index) says.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

Cut cut_of(const Attrs& attrs) {
  return static_cast<Cut>(int_attr(attrs, "cut", MGT_MAP_CONTIGUOUS));
}

Result<int64_t> parts_of(const Attrs& attrs) {
  const int64_t parts = int_attr(attrs, "parts");
  if (parts < 1) return invalid_argument(text("a tensor cannot be cut into ", parts, " parts"));
  return parts;
}

Result<size_t> cut_dim(const Attrs& attrs, const Type& type) {
  const int64_t dim = int_attr(attrs, "dim");
  if (dim < 0 || dim >= static_cast<int64_t>(type.rank())) {
    return invalid_argument(text("dimension ", dim, " of ", to_string(type), " does not exist"));
  }
  return static_cast<size_t>(dim);
}

// x -> the part `index` of dimension `dim`.
Result<std::vector<Type>> infer_slice(const Attrs& attrs, std::span<const Type> in) {
  if (in.size() != 1) return invalid_argument("slice takes one tensor");
  MGT_ASSIGN_OR_RETURN(const size_t d, cut_dim(attrs, in[0]));
  MGT_ASSIGN_OR_RETURN(const int64_t parts, parts_of(attrs));
  Type out = in[0];
  out.dims[d].size = IndexMap::part_size(out.dims[d].size, cut_of(attrs), parts);
  return std::vector<Type>{out};
}

// x -> [parts, x with dimension `dim` cut]: what each part would hold, one after the other.
Result<std::vector<Type>> infer_stack(const Attrs& attrs, std::span<const Type> in) {
  MGT_ASSIGN_OR_RETURN(auto out, infer_slice(attrs, in));
  out[0].dims.insert(out[0].dims.begin(), Dim{int_attr(attrs, "parts"), ""});
  return out;
}

// [parts, …] -> the whole, dimension `dim` (counted without the leading one) of `size`.
Result<std::vector<Type>> infer_unstack(const Attrs& attrs, std::span<const Type> in) {
  if (in.size() != 1 || in[0].rank() < 1 || in[0].dims[0].size < 1)
    return invalid_argument("unstack takes one tensor [parts, …]");
  Type out = in[0];
  out.dims.erase(out.dims.begin());
  MGT_ASSIGN_OR_RETURN(const size_t d, cut_dim(attrs, out));
  const int64_t size = int_attr(attrs, "size");
  if (IndexMap::part_size(size, cut_of(attrs), in[0].dims[0].size) != out.dims[d].size) {
    return invalid_argument(
        text("unstack of ", to_string(in[0]), " cannot give dimension ", d, " the size ", size));
  }
  out.dims[d].size = size;
  return std::vector<Type>{out};
}

// x[M...] -> [parts, chunk], row-major, zeros behind the end.
Result<std::vector<Type>> infer_flatten(const Attrs& attrs, std::span<const Type> in) {
  if (in.size() != 1) return invalid_argument("flatten takes one tensor");
  MGT_ASSIGN_OR_RETURN(const int64_t parts, parts_of(attrs));
  return std::vector<Type>{
      {in[0].dtype,
       {{parts, ""}, {IndexMap::part_size(in[0].elements(), Cut::contiguous, parts), "flat"}}}};
}

// [parts, chunk] -> [dims...], without what lies behind the end.
Result<std::vector<Type>> infer_unflatten(const Attrs& attrs, std::span<const Type> in) {
  if (in.size() != 1) return invalid_argument("unflatten takes one tensor");
  MGT_ASSIGN_OR_RETURN(Type out, type_from_attrs(attrs, in[0].dtype));
  if (out.elements() > in[0].elements()) {
    return invalid_argument(
        text("unflatten of ", to_string(in[0]), " cannot give ", to_string(out)));
  }
  return std::vector<Type>{out};
}

// x[M...] -> [chunk], part `index` of its flat elements.
Result<std::vector<Type>> infer_flat_slice(const Attrs& attrs, std::span<const Type> in) {
  MGT_ASSIGN_OR_RETURN(auto out, infer_flatten(attrs, in));
  out[0].dims.erase(out[0].dims.begin());
  return out;
}

// Results have the shape of the operand of the highest rank.
Result<std::vector<Type>> infer_fused(const Attrs& attrs, std::span<const Type> in) {
  const Type* widest = nullptr;
  for (const auto& t : in) {
    if (!t.is_scalar() && (widest == nullptr || t.rank() > widest->rank())) widest = &t;
  }
  if (widest == nullptr) return invalid_argument("fused needs a tensor operand");
  const int64_t outputs = int_attr(attrs, "outputs");
  if (outputs < 1) return invalid_argument(text("fused cannot have ", outputs, " results"));
  return std::vector<Type>(static_cast<size_t>(outputs), Type{DType::f32, widest->dims});
}

}  // namespace

Result<std::vector<Type>> infer_same(const Attrs&, std::span<const Type> inputs) {
  if (inputs.size() != 1) return invalid_argument("takes one tensor");
  return std::vector<Type>{inputs[0]};
}

Result<Type> type_from_attrs(const Attrs& attrs, DType dtype) {
  const auto it = attrs.find("dims");
  MGT_CHECK(it != attrs.end(), "attribute 'dims'");
  const auto& sizes = std::get<std::vector<int64_t>>(it->second);
  const std::string axes = string_attr(attrs, "axes");
  Type type{dtype, {}};
  size_t begin = 0;
  for (const int64_t size : sizes) {
    const size_t end = std::min(axes.find(',', begin), axes.size());
    type.dims.push_back(
        {size, begin <= axes.size() ? axes.substr(begin, end - begin) : std::string()});
    begin = end + 1;
  }
  return type;
}

void type_to_attrs(const Type& type, Attrs& attrs) {
  std::vector<int64_t> sizes;
  std::string axes;
  for (const auto& d : type.dims) {
    if (!sizes.empty()) axes += ',';
    sizes.push_back(d.size);
    axes += d.axis;
  }
  attrs["dims"] = std::move(sizes);
  attrs["axes"] = std::move(axes);
}

void add_movement_ops(std::vector<OpDef>& table) {
  const AttrSpec dim{"dim", AttrKind::integer};
  const AttrSpec parts{"parts", AttrKind::integer};
  const AttrSpec index{"index", AttrKind::integer};
  const AttrSpec cut{"cut", AttrKind::integer, false};
  const AttrSpec dims{"dims", AttrKind::integers};
  const AttrSpec axes{"axes", AttrKind::string, false};
  const AttrSpec size{"size", AttrKind::integer};
  table.push_back(
      {.name = "slice", .attrs = {dim, parts, index, cut}, .infer = infer_slice, .internal = true});
  table.push_back(
      {.name = "stack", .attrs = {dim, parts, cut}, .infer = infer_stack, .internal = true});
  table.push_back(
      {.name = "unstack", .attrs = {dim, size, cut}, .infer = infer_unstack, .internal = true});
  table.push_back({.name = "flatten", .attrs = {parts}, .infer = infer_flatten, .internal = true});
  table.push_back(
      {.name = "unflatten", .attrs = {dims, axes}, .infer = infer_unflatten, .internal = true});
  table.push_back(
      {.name = "flat_slice", .attrs = {parts, index}, .infer = infer_flat_slice, .internal = true});
  // A copy, for a result that must land in the memory of a parameter or state.
  table.push_back({.name = "copy", .infer = infer_same, .internal = true});
  // The operand brought to the placement that its memory has: where partial gradients are reduced.
  // The partitioner leaves none behind.
  table.push_back({.name = "resolve", .pattern = "M->M", .internal = true});
  table.push_back({.name = "zeros_like", .infer = infer_same, .internal = true});
  table.push_back({.name = "fused",
                   .attrs = {{"expr", AttrKind::string}, {"outputs", AttrKind::integer}},
                   .infer = infer_fused,
                   .internal = true});
}

}  // namespace megatron::graph
