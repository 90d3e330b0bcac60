#include "shapes/movement_shape.hpp"

#include <algorithm>

namespace megatron::cpu {
namespace {

// Indices [to, to + size) of the result's dimension are [from, from + size) of the input's.
struct Run {
  int64_t to, from, size;
};
using Runs = std::vector<Run>;  // of one dimension

std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

Runs whole(int64_t size) { return {{0, 0, size}}; }

// The size of a part of a dimension of `size`.
int64_t part_size(const KernelDesc& desc, int64_t size, int64_t parts) {
  expect(parts >= 1, desc, text("a dimension cannot be cut into ", parts, " parts"));
  return IndexMap::part_size(size, static_cast<Cut>(desc.integer("cut", MGT_MAP_CONTIGUOUS)),
                             parts);
}

// Part `index` of a dimension of `size`.
Runs cut_runs(const KernelDesc& desc, int64_t size, int64_t parts, int64_t index) {
  const auto how = static_cast<Cut>(desc.integer("cut", MGT_MAP_CONTIGUOUS));
  const auto map = IndexMap::identity(size).cut(how, parts, index);
  Runs runs;
  for (const auto& p : map.pieces()) runs.push_back({p.local_begin, p.global_begin, p.size});
  return runs;
}

// The global indices of `to`, found in `from`.
Runs map_runs(const IndexMap& to, const IndexMap& from) {
  Runs runs;
  for (const auto& t : to.pieces()) {
    for (const auto& f : from.pieces()) {
      const int64_t begin = std::max(t.global_begin, f.global_begin);
      const int64_t end = std::min(t.global_begin + t.size, f.global_begin + f.size);
      if (begin >= end) continue;
      runs.push_back({t.local_begin + begin - t.global_begin,
                      f.local_begin + begin - f.global_begin, end - begin});
    }
  }
  return runs;
}

// One box for each combination of runs.
void add_boxes(const std::vector<Runs>& runs, const std::vector<int64_t>& from_dims,
               const std::vector<int64_t>& to_dims, int64_t from, int64_t to,
               std::vector<Box>& boxes) {
  const auto from_strides = dense_strides(from_dims), to_strides = dense_strides(to_dims);
  std::vector<size_t> pick(runs.size(), 0);
  if (std::ranges::any_of(runs, [](const Runs& r) { return r.empty(); })) return;
  while (true) {
    Box box;
    box.rank = static_cast<uint32_t>(runs.size());
    box.from = from;
    box.to = to;
    for (size_t d = 0; d < runs.size(); ++d) {
      const Run& run = runs[d][pick[d]];
      box.sizes[d] = run.size;
      box.from_strides[d] = from_strides[d];
      box.to_strides[d] = to_strides[d];
      box.from += run.from * from_strides[d];
      box.to += run.to * to_strides[d];
    }
    if (box.elements() > 0) boxes.push_back(box);
    size_t d = runs.size();
    while (d > 0 && ++pick[d - 1] == runs[d - 1].size()) pick[--d] = 0;
    if (d == 0) return;
  }
}

void add_flat(int64_t from, int64_t size, std::vector<Box>& boxes) {
  Box box;
  box.rank = 1;
  box.sizes[0] = size;
  box.from_strides[0] = box.to_strides[0] = 1;
  box.from = from;
  if (size > 0) boxes.push_back(box);
}

void slice_boxes(const KernelDesc& desc, std::vector<Box>& boxes) {
  const auto& in = desc.inputs[0];
  const auto& out = desc.outputs[0];
  expect(in.rank() == out.rank(), desc, "a slice keeps the rank");
  const bool by_cut = desc.attrs.contains("parts");
  std::vector<Runs> runs;
  for (size_t d = 0; d < in.rank(); ++d) {
    if (!by_cut) {
      runs.push_back(map_runs(out.maps[d], in.maps[d]));
    } else if (static_cast<int64_t>(d) == desc.integer("dim", -1)) {
      const int64_t parts = desc.integer("parts", 1), index = desc.integer("index", 0);
      expect(out.dims[d] == part_size(desc, in.dims[d], parts), desc,
             text("dimension ", d, " of the result is not a part of ", parts));
      expect(index >= 0 && index < parts, desc,
             text("part ", index, " of ", parts, " is asked for"));
      runs.push_back(cut_runs(desc, in.dims[d], parts, index));
    } else {
      expect(in.dims[d] == out.dims[d], desc, "a dimension that is not cut changes its size");
      runs.push_back(whole(in.dims[d]));
    }
  }
  add_boxes(runs, in.dims, out.dims, 0, 0, boxes);
}

// x -> [parts, x with `dim` cut], or back when `unstack`.
void stack_boxes(const KernelDesc& desc, bool unstack, std::vector<Box>& boxes) {
  const auto& whole_tensor = unstack ? desc.outputs[0] : desc.inputs[0];
  const auto& stacked = unstack ? desc.inputs[0] : desc.outputs[0];
  expect(stacked.rank() == whole_tensor.rank() + 1, desc, "the stacked tensor is [parts, …]");
  const int64_t dim = desc.required_integer("dim"), parts = stacked.dims[0];
  expect(desc.integer("parts", parts) == parts, desc, text("there are ", parts, " parts"));
  for (size_t d = 0; d < whole_tensor.rank(); ++d) {
    const int64_t size = whole_tensor.dims[d];
    expect(stacked.dims[d + 1] ==
               (static_cast<int64_t>(d) == dim ? part_size(desc, size, parts) : size),
           desc, text("dimension ", d + 1, " of the stacked tensor is not that of a part"));
  }
  const std::vector<int64_t> part(stacked.dims.begin() + 1, stacked.dims.end());
  const int64_t part_elements = stacked.product(1, stacked.rank());
  for (int64_t p = 0; p < parts; ++p) {
    std::vector<Runs> runs;
    for (size_t d = 0; d < part.size(); ++d) {
      runs.push_back(static_cast<int64_t>(d) == dim ? cut_runs(desc, whole_tensor.dims[d], parts, p)
                                                    : whole(part[d]));
    }
    if (!unstack) {
      add_boxes(runs, whole_tensor.dims, part, 0, p * part_elements, boxes);
      continue;
    }
    for (auto& r : runs) {
      for (auto& run : r) std::swap(run.to, run.from);
    }
    add_boxes(runs, part, whole_tensor.dims, p * part_elements, 0, boxes);
  }
}

}  // namespace

int64_t Box::elements() const {
  int64_t n = 1;
  for (uint32_t d = 0; d < rank; ++d) n *= sizes[d];
  return n;
}

Movement movement_shape(const KernelDesc& desc) {
  expect_operands(desc, 1, 1);
  const auto& in = desc.inputs[0];
  const auto& out = desc.outputs[0];
  expect(in.dtype == out.dtype, desc, "the input's and the result's element types differ");
  Movement m{dtype_size(in.dtype), out.elements(), {}, false};
  if (desc.op == "slice") {
    slice_boxes(desc, m.boxes);
  } else if (desc.op == "stack" || desc.op == "unstack") {
    stack_boxes(desc, desc.op == "unstack", m.boxes);
  } else if (desc.op == "copy") {
    expect(in.dims == out.dims, desc, "a copy keeps the shape");
    add_flat(0, in.elements(), m.boxes);
  } else if (desc.op == "flatten" || desc.op == "unflatten") {
    const auto& flat = desc.op == "flatten" ? out : in;
    const auto& shaped = desc.op == "flatten" ? in : out;
    expect(flat.rank() == 2 && flat.elements() >= shaped.elements(), desc,
           "the flat tensor is [parts, chunk] and holds all elements");
    add_flat(0, shaped.elements(), m.boxes);
  } else if (desc.op == "flat_slice") {
    const int64_t index = desc.required_integer("index"), parts = desc.required_integer("parts");
    expect(out.rank() == 1 && index >= 0 && index < parts &&
               out.elements() == part_size(desc, in.elements(), parts),
           desc, text("the result is not part ", index, " of ", parts));
    const int64_t begin = index * out.elements();
    add_flat(begin, std::clamp<int64_t>(in.elements() - begin, 0, out.elements()), m.boxes);
  } else {
    expect(desc.op == "zeros_like", desc, "it is not an op that moves elements");
    expect(in.dims == out.dims, desc, "the zeros have the operand's shape");
  }
  int64_t written = 0;
  for (const auto& box : m.boxes) written += box.elements();
  m.covered = written == m.result_elements;
  return m;
}

}  // namespace megatron::cpu
