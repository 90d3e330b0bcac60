// Sums by fixed blocks whose partial sums are added in ascending order, and the broadcast of a
// number.
#include <algorithm>

#include "shapes/row_shapes.hpp"
#include "simd/sum_kernels.hpp"
#include "tasks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr int64_t kTaskElements = 64 * 1024;
constexpr int64_t kRows = 128;      // of one partial of a sum over rows
constexpr int64_t kColumns = 4096;  // likewise

// Σ of everything; the partials are doubles.
template <class Sum>
std::unique_ptr<Kernel> total(const KernelDesc& desc, const Host& host, int64_t elements,
                              const Sum& sum) {
  // Few partials whatever the size: they are added on one thread.
  const auto pieces =
      Pieces::of(elements, std::max(kTaskElements, ceil_div(elements, 4096)), kAlignFloats);
  return make_kernel(kName, static_cast<uint64_t>(pieces.count()) * sizeof(double),
                     [host, pieces, sum, acc = Accumulation(desc)](const Launch& l) {
                       auto* partials = l.workspace<double>();
                       for_tasks(host, pieces.count(), [&](int64_t task, uint32_t) {
                         partials[task] = sum(l.input(0) + pieces.begin(task), pieces.length(task));
                       });
                       double result = acc.adds(l, 0) ? static_cast<double>(l.output(0)[0]) : 0.0;
                       for (int64_t t = 0; t < pieces.count(); ++t) result += partials[t];
                       l.output(0)[0] = static_cast<float>(result);
                     });
}

}  // namespace

std::unique_ptr<Kernel> sum(const KernelDesc& desc, const Host& host, std::string& reason) {
  const RowShape s = sum_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  if (s.columns == 1) {
    return total(desc, host, s.rows,
                 [](const float* x, int64_t n) { return sum_kernels().sum(x, n); });
  }
  // Partials [row block, column]: single precision inside a block, double over blocks.
  const auto rows = Pieces::of(s.rows, std::max(kRows, ceil_div(s.rows, 64)), 8);
  const auto columns = Pieces::of(s.columns, kColumns, kAlignFloats);
  const int64_t width = round_up(s.columns, kAlignFloats);
  const auto bytes = static_cast<uint64_t>(rows.count() * width) * sizeof(float);
  return make_kernel(
      kName, bytes, [s, host, rows, columns, width, acc = Accumulation(desc)](const Launch& l) {
        auto* partials = l.workspace<float>();
        for_tasks(host, rows.count() * columns.count(), [&](int64_t task, uint32_t) {
          const int64_t r = task / columns.count(), c = task % columns.count();
          sum_kernels().column_sums(l.input(0) + rows.begin(r) * s.columns + columns.begin(c),
                                    s.columns, rows.length(r), columns.length(c),
                                    partials + r * width + columns.begin(c));
        });
        const bool adds = acc.adds(l, 0);
        for_tasks(host, columns.count(), [&](int64_t task, uint32_t) {
          for (int64_t c = columns.begin(task); c < columns.begin(task) + columns.length(task);
               ++c) {
            double result = adds ? static_cast<double>(l.output(0)[c]) : 0.0;
            for (int64_t r = 0; r < rows.count(); ++r) {
              result += static_cast<double>(partials[r * width + c]);
            }
            l.output(0)[c] = static_cast<float>(result);
          }
        });
      });
}

std::unique_ptr<Kernel> sum_squares(const KernelDesc& desc, const Host& host, std::string& reason) {
  expect_operands(desc, 1, 1);
  if (!is_f32(desc, reason)) return nullptr;
  return total(desc, host, desc.inputs[0].elements(),
               [](const float* x, int64_t n) { return sum_kernels().sum_squares(x, n); });
}

// g is a rank-0 tensor or a scalar.
std::unique_ptr<Kernel> expand(const KernelDesc& desc, const Host& host, std::string& reason) {
  const bool by_value = desc.scalar_count > 0;
  expect_operands(desc, by_value ? 1 : 2, 1);
  if (desc.outputs[0].dtype != DType::f32 || (!by_value && desc.inputs[0].dtype != DType::f32)) {
    reason = "g and the result must be f32";
    return nullptr;
  }
  const auto pieces = Pieces::of(desc.outputs[0].elements(), kTaskElements, kAlignFloats);
  return make_kernel(kName, 0, [host, pieces, by_value](const Launch& l) {
    const float g = by_value ? static_cast<float>(l.scalar(0)) : l.input(0)[0];
    for_tasks(host, pieces.count(), [&](int64_t task, uint32_t) {
      std::fill_n(l.output(0) + pieces.begin(task), pieces.length(task), g);
    });
  });
}

}  // namespace megatron::cpu::vectorised
