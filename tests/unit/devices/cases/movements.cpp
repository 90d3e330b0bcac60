// Ops that only move elements: every element of the result asks where it comes from. Values are the
// elements' own numbers, so that no two are alike.
#include <numeric>

#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {
namespace {

Values numbered(const TensorDesc& t) {
  Values out(static_cast<size_t>(t.elements()));
  std::iota(out.begin(), out.end(), 1.0);
  return out;
}

// Input element of each result element; −1 = none, which gives 0.
using Source = std::function<int64_t(const OpCase&, int64_t)>;
Formula from(Source source) {
  return [source = std::move(source)](const OpCase& c) {
    Values out(static_cast<size_t>(c.desc.outputs[0].elements()), 0.0);
    for (size_t e = 0; e < out.size(); ++e) {
      const int64_t at = source(c, static_cast<int64_t>(e));
      if (at >= 0) out[e] = c.inputs[0][static_cast<size_t>(at)];
    }
    return std::vector<Values>{out};
  };
}

OpCase movement(std::string_view op, std::string_view variant, const TensorDesc& in,
                const TensorDesc& out, const KernelAttrs& attrs, Source source) {
  CaseWriter w(op, variant);
  for (const auto& [name, value] : attrs) w.attr(name, value);
  return w.input(in, numbered(in)).output(out).formula(from(std::move(source)));
}

IndexMap part_of(int64_t size, Cut how, int64_t parts, int64_t index) {
  return IndexMap::identity(size).cut(how, parts, index);
}

// slice, stack and unstack of dimension `dim` of a tensor.
void add_cut(std::vector<OpCase>& cases, const std::vector<int64_t>& dims, int64_t dim, Cut how,
             int64_t parts, DType dtype) {
  const auto d = static_cast<size_t>(dim);
  const TensorDesc whole(dtype, dims);
  std::vector<int64_t> part_dims = dims;
  part_dims[d] = IndexMap::part_size(dims[d], how, parts);
  const TensorDesc part(dtype, part_dims);
  std::vector<int64_t> stacked_dims = part_dims;
  stacked_dims.insert(stacked_dims.begin(), parts);
  const TensorDesc stacked(dtype, stacked_dims);
  const auto variant =
      text(whole.to_string(), "_dim_", dim, how == Cut::balanced ? "_balanced_" : "_", parts);
  const KernelAttrs attrs{{"dim", dim}, {"parts", parts}, {"cut", static_cast<int64_t>(how)}};
  for (int64_t index = 0; index < parts; ++index) {
    KernelAttrs with_index = attrs;
    with_index["index"] = index;
    cases.push_back(movement("slice", text(variant, "_part_", index), whole, part, with_index,
                             [=](const OpCase&, int64_t e) {
                               auto at = unravel(part, e);
                               at[d] = part_of(dims[d], how, parts, index).global(at[d]);
                               return at[d] < 0 ? -1 : ravel(whole, at);
                             }));
  }
  cases.push_back(movement("stack", variant, whole, stacked, attrs, [=](const OpCase&, int64_t e) {
    auto at = unravel(part, e % part.elements());
    const int64_t p = e / part.elements();
    at[d] = part_of(dims[d], how, parts, p).global(at[d]);
    return at[d] < 0 ? -1 : ravel(whole, at);
  }));
  KernelAttrs with_size = attrs;
  with_size["size"] = dims[d];
  cases.push_back(
      movement("unstack", variant, stacked, whole, with_size, [=](const OpCase&, int64_t e) {
        for (int64_t p = 0; p < parts; ++p) {
          auto at = unravel(whole, e);
          at[d] = part_of(dims[d], how, parts, p).local(at[d]);
          if (at[d] >= 0) return p * part.elements() + ravel(part, at);
        }
        return int64_t{-1};
      }));
}

void add_flat(std::vector<OpCase>& cases, const std::vector<int64_t>& dims, int64_t parts) {
  const auto whole = f32(dims);
  const int64_t n = whole.elements(), chunk = (n + parts - 1) / parts;
  const auto variant = text(whole.to_string(), "_", parts);
  const auto same_place = [=](const OpCase&, int64_t e) { return e < n ? e : -1; };
  cases.push_back(
      movement("flatten", variant, whole, f32({parts, chunk}), {{"parts", parts}}, same_place));
  cases.push_back(
      movement("unflatten", variant, f32({parts, chunk}), whole, {{"dims", dims}}, same_place));
  for (int64_t index = 0; index < parts; ++index) {
    cases.push_back(movement("flat_slice", text(variant, "_part_", index), whole, f32({chunk}),
                             {{"parts", parts}, {"index", index}}, [=](const OpCase&, int64_t e) {
                               return index * chunk + e < n ? index * chunk + e : -1;
                             }));
  }
}

}  // namespace

void add_movement_cases(std::vector<OpCase>& cases) {
  add_cut(cases, {6}, 0, Cut::contiguous, 2, DType::f32);
  add_cut(cases, {1, 7, 3}, 1, Cut::contiguous, 3, DType::f32);
  add_cut(cases, {5, 4, 6}, 0, Cut::contiguous, 4, DType::f32);
  add_cut(cases, {3, 9}, 1, Cut::balanced, 2, DType::i32);
  add_cut(cases, {2, 16, 5}, 1, Cut::balanced, 2, DType::f32);
  add_cut(cases, {2, 3, 1}, 2, Cut::contiguous, 2, DType::f32);
  add_cut(cases, {300, 400}, 0, Cut::contiguous, 3, DType::f32);
  add_cut(cases, {90, 1001}, 1, Cut::balanced, 4, DType::f32);
  add_flat(cases, {1}, 1);
  add_flat(cases, {3, 5}, 2);
  add_flat(cases, {2, 2}, 8);  // the last parts are padding alone
  add_flat(cases, {123, 457}, 4);

  // By maps: what of the input's indices the result holds.
  const auto wide =
      mapped({IndexMap::identity(3), IndexMap::identity(20).cut(Cut::balanced, 2, 0)});
  const auto narrow = mapped({IndexMap::identity(3), piece(20, 2, 10, 1)});
  cases.push_back(movement("slice", "by_maps", wide, narrow, {}, [=](const OpCase&, int64_t e) {
    auto at = unravel(narrow, e);
    const int64_t global = narrow.global_index(1, at[1]);
    at[1] = global < 0 ? -1 : wide.maps[1].local(global);
    return at[1] < 0 ? -1 : ravel(wide, at);
  }));

  const auto same = [](const OpCase&, int64_t e) { return e; };
  for (const auto& dims : std::vector<std::vector<int64_t>>{{}, {1}, {5, 7}, {3, 70000}}) {
    const auto t = f32(dims);
    cases.push_back(movement("copy", t.to_string(), t, t, {}, same));
    cases.push_back(movement("zeros_like", t.to_string(), t, t, {},
                             [](const OpCase&, int64_t) { return int64_t{-1}; }));
  }
  cases.push_back(movement("copy", "i32", i32({4, 9}), i32({4, 9}), {}, same));
}

}  // namespace megatron::cpu::testing
