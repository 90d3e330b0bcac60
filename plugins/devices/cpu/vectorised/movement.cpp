// Ops that only move elements: whole rows at a time, on all workers.
#include <algorithm>
#include <cstring>

#include "shapes/movement_shape.hpp"
#include "tasks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr int64_t kTaskBytes = 256 * 1024;

// Trailing dimensions that are contiguous on both sides become one.
Box merged(Box box) {
  while (box.rank >= 2) {
    const uint32_t last = box.rank - 1;
    if (box.from_strides[last - 1] != box.sizes[last] ||
        box.to_strides[last - 1] != box.sizes[last]) {
      break;
    }
    box.sizes[last - 1] *= box.sizes[last];
    box.from_strides[last - 1] = box.to_strides[last - 1] = 1;
    --box.rank;
  }
  return box;
}

// Rows [first, first + count) of a box, a row being its last dimension, or a part of the only row.
void copy_rows(const Box& box, int64_t bytes, int64_t first, int64_t count, const char* from,
               char* to) {
  const int64_t width = box.rank == 0 ? 1 : box.sizes[box.rank - 1];
  for (int64_t row = first; row < first + count; ++row) {
    int64_t rest = row, source = box.from, target = box.to;
    for (uint32_t d = box.rank > 0 ? box.rank - 1 : 0; d-- > 0; rest /= box.sizes[d]) {
      source += rest % box.sizes[d] * box.from_strides[d];
      target += rest % box.sizes[d] * box.to_strides[d];
    }
    std::memcpy(to + target * bytes, from + source * bytes, static_cast<size_t>(width * bytes));
  }
}

}  // namespace

std::unique_ptr<Kernel> movement(const KernelDesc& desc, const Host& host, std::string&) {
  auto m = movement_shape(desc);
  for (auto& box : m.boxes) box = merged(box);
  const auto bytes = static_cast<int64_t>(m.element_bytes);
  const auto all = Pieces::of(m.result_elements * bytes, kTaskBytes, 64);
  return make_kernel(kName, 0, [m = std::move(m), host, bytes, all](const Launch& l) {
    const auto* from = l.input<char>(0);
    auto* to = l.output<char>(0);
    if (!m.covered) {
      for_tasks(host, all.count(), [&](int64_t task, uint32_t) {
        std::memset(to + all.begin(task), 0, static_cast<size_t>(all.length(task)));
      });
    }
    for (const Box& box : m.boxes) {
      if (box.rank == 1) {  // one run
        const auto run = Pieces::of(box.sizes[0] * bytes, kTaskBytes, 64);
        for_tasks(host, run.count(), [&](int64_t task, uint32_t) {
          std::memcpy(to + box.to * bytes + run.begin(task),
                      from + box.from * bytes + run.begin(task),
                      static_cast<size_t>(run.length(task)));
        });
        continue;
      }
      const int64_t width = box.rank == 0 ? 1 : box.sizes[box.rank - 1];
      const auto rows = Pieces::of(box.elements() / width, kTaskBytes / (width * bytes) + 1);
      for_tasks(host, rows.count(), [&](int64_t task, uint32_t) {
        copy_rows(box, bytes, rows.begin(task), rows.length(task), from, to);
      });
    }
  });
}

}  // namespace megatron::cpu::vectorised
