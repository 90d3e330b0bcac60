// What ranks exchange. `axis` names a mesh axis; the group is the ranks that differ in it alone.
#include "graph/op.hpp"

namespace megatron::graph {
namespace {

// x -> [parts, x]
Result<std::vector<Type>> infer_all_gather(const Attrs& attrs, std::span<const Type> in) {
  if (in.size() != 1) return invalid_argument("all_gather takes one tensor");
  Type out = in[0];
  out.dims.insert(out.dims.begin(), Dim{int_attr(attrs, "parts"), ""});
  return std::vector<Type>{out};
}

Status check_reduce(const Attrs& attrs) {
  const std::string name = string_attr(attrs, "reduce");
  if (parse_reduce(name)) return {};
  return invalid_argument(text("unknown reduction '", name, "'"),
                          "it is none of sum, max, logsumexp", "use one of them");
}

Result<std::vector<Type>> infer_all_reduce(const Attrs& attrs, std::span<const Type> in) {
  MGT_RETURN_IF_ERROR(check_reduce(attrs));
  return infer_same(attrs, in);
}

// [parts, x] -> x
Result<std::vector<Type>> infer_reduce_scatter(const Attrs& attrs, std::span<const Type> in) {
  MGT_RETURN_IF_ERROR(check_reduce(attrs));
  if (in.size() != 1 || in[0].rank() < 1 || in[0].dims[0].size != int_attr(attrs, "parts")) {
    return invalid_argument("reduce_scatter takes one tensor [parts, …]");
  }
  Type out = in[0];
  out.dims.erase(out.dims.begin());
  return std::vector<Type>{out};
}

Result<std::vector<Type>> infer_send(const Attrs&, std::span<const Type> in) {
  if (in.size() != 1) return invalid_argument("send takes one tensor");
  return std::vector<Type>{};
}

Result<std::vector<Type>> infer_recv(const Attrs& attrs, std::span<const Type> in) {
  if (!in.empty()) return invalid_argument("recv takes no operand");
  const auto dtype = parse_dtype(string_attr(attrs, "dtype"));
  if (!dtype)
    return invalid_argument(text("recv: unknown dtype '", string_attr(attrs, "dtype"), "'"));
  MGT_ASSIGN_OR_RETURN(Type out, type_from_attrs(attrs, *dtype));
  return std::vector<Type>{out};
}

}  // namespace

void add_communication_ops(std::vector<OpDef>& table) {
  const AttrSpec axis{"axis", AttrKind::string};
  const AttrSpec parts{"parts", AttrKind::integer};
  const AttrSpec reduce{"reduce", AttrKind::string};
  const AttrSpec offset{"offset", AttrKind::integer};
  const AttrSpec peer{"peer", AttrKind::integer};
  const AttrSpec tag{"tag", AttrKind::string};
  table.push_back({.name = "all_reduce",
                   .attrs = {axis, reduce},
                   .infer = infer_all_reduce,
                   .internal = true,
                   .communicates = true});
  table.push_back({.name = "all_gather",
                   .attrs = {axis, parts},
                   .infer = infer_all_gather,
                   .internal = true,
                   .communicates = true});
  table.push_back({.name = "reduce_scatter",
                   .attrs = {axis, parts, reduce},
                   .infer = infer_reduce_scatter,
                   .internal = true,
                   .communicates = true});
  // Block r of x[parts, …] goes to rank r.
  table.push_back({.name = "all_to_all",
                   .attrs = {axis},
                   .infer = infer_same,
                   .internal = true,
                   .communicates = true});
  // What the rank `offset` before this one holds, cyclically.
  table.push_back({.name = "ring_shift",
                   .attrs = {axis, offset},
                   .infer = infer_same,
                   .internal = true,
                   .communicates = true});
  table.push_back({.name = "send",
                   .attrs = {axis, peer, tag},
                   .outputs = 0,
                   .infer = infer_send,
                   .internal = true,
                   .communicates = true});
  table.push_back({.name = "recv",
                   .attrs = {axis,
                             peer,
                             tag,
                             {"dtype", AttrKind::string},
                             {"dims", AttrKind::integers},
                             {"axes", AttrKind::string, false}},
                   .infer = infer_recv,
                   .internal = true,
                   .communicates = true});
}

}  // namespace megatron::graph
