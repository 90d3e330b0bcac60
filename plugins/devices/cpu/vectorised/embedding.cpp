// Rows of a table by id, and the scatter-add that is its gradient.
#include <algorithm>

#include "shapes/row_shapes.hpp"
#include "simd/sum_kernels.hpp"
#include "tasks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr int64_t kTaskElements = 64 * 1024;
constexpr int64_t kColumns = 128;  // of the gradient, a task

}  // namespace

std::unique_ptr<Kernel> embedding(const KernelDesc& desc, const Host& host, std::string& reason) {
  expect_operands(desc, 2, 1);
  if (!is_f32(desc, reason, 0)) return nullptr;
  const auto s = embedding_shape(desc, desc.inputs[1], desc.outputs[0]);
  const auto rows = Pieces::of(s.ids, kTaskElements / std::max<int64_t>(s.columns, 1));
  return make_kernel(kName, 0, [s, host, rows](const Launch& l) {
    for_tasks(host, rows.count(), [&](int64_t task, uint32_t) {
      for (int64_t m = rows.begin(task); m < rows.begin(task) + rows.length(task); ++m) {
        const int64_t row = s.vocab.local(l.input<int32_t>(0)[m]);
        float* out = l.output(0) + m * s.columns;
        if (row < 0) {
          std::fill_n(out, s.columns, 0.0f);
        } else {
          std::copy_n(l.input(1) + row * s.columns, s.columns, out);
        }
      }
    });
  });
}

// A task owns some columns of every row and takes the ids in ascending m, so that no two tasks
// write the same element and the order of each sum is fixed.
std::unique_ptr<Kernel> embedding_grad(const KernelDesc& desc, const Host& host,
                                       std::string& reason) {
  expect_operands(desc, 2, 1);
  if (!is_f32(desc, reason, 0)) return nullptr;
  const auto s = embedding_shape(desc, desc.outputs[0], desc.inputs[1]);
  const auto columns = Pieces::of(s.columns, kColumns, kAlignFloats);
  const auto clear = Pieces::of(s.vocab.local_size() * s.columns, kTaskElements, kAlignFloats);
  return make_kernel(kName, 0,
                     [s, host, columns, clear, acc = Accumulation(desc)](const Launch& l) {
                       if (!acc.adds(l, 0)) {
                         for_tasks(host, clear.count(), [&](int64_t task, uint32_t) {
                           std::fill_n(l.output(0) + clear.begin(task), clear.length(task), 0.0f);
                         });
                       }
                       for_tasks(host, columns.count(), [&](int64_t task, uint32_t) {
                         const int64_t begin = columns.begin(task), width = columns.length(task);
                         for (int64_t m = 0; m < s.ids; ++m) {
                           const int64_t row = s.vocab.local(l.input<int32_t>(0)[m]);
                           if (row < 0) continue;
                           sum_kernels().add(l.input(1) + m * s.columns + begin,
                                             l.output(0) + row * s.columns + begin, width);
                         }
                       });
                     });
}

}  // namespace megatron::cpu::vectorised
