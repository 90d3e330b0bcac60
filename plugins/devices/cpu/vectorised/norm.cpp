// Layer norms by blocks of rows.
#include "shapes/row_shapes.hpp"
#include "simd/norm_kernels.hpp"
#include "simd/sum_kernels.hpp"
#include "tasks.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

constexpr int64_t kTaskElements = 64 * 1024;
constexpr int64_t kMaxPartials = 32;

Pieces row_pieces(const RowShape& s) {
  return Pieces::of(s.rows, kTaskElements / std::max<int64_t>(s.columns, 1));
}

}  // namespace

std::unique_ptr<Kernel> layer_norm(const KernelDesc& desc, const Host& host, std::string& reason) {
  expect_operands(desc, 3, 3);
  if (!is_f32(desc, reason)) return nullptr;
  const RowShape s = norm_shape(desc, 0);
  const auto epsilon = static_cast<float>(desc.number("epsilon", 1e-5));
  return make_kernel(kName, 0, [s, host, epsilon, rows = row_pieces(s)](const Launch& l) {
    for_tasks(host, rows.count(), [&](int64_t task, uint32_t) {
      const int64_t r = rows.begin(task), at = r * s.columns;
      norm_kernels().forward(l.input(0) + at, l.input(1), l.input(2), l.output(0) + at,
                             l.output(1) + r, l.output(2) + r, rows.length(task), s.columns,
                             epsilon);
    });
  });
}

std::unique_ptr<Kernel> layer_norm_grad(const KernelDesc& desc, const Host& host,
                                        std::string& reason) {
  expect_operands(desc, 5, 1);
  if (!is_f32(desc, reason)) return nullptr;
  const RowShape s = norm_shape(desc, 1);
  return make_kernel(kName, 0, [s, host, rows = row_pieces(s)](const Launch& l) {
    for_tasks(host, rows.count(), [&](int64_t task, uint32_t) {
      const int64_t r = rows.begin(task), at = r * s.columns;
      norm_kernels().backward(l.input(0) + at, l.input(1) + at, l.input(2) + r, l.input(3) + r,
                              l.input(4), l.output(0) + at, rows.length(task), s.columns);
    });
  });
}

// Every block of rows gives a partial [2, k]; these are added in ascending order.
std::unique_ptr<Kernel> layer_norm_param_grad(const KernelDesc& desc, const Host& host,
                                              std::string& reason) {
  expect_operands(desc, 4, 2);
  if (!is_f32(desc, reason)) return nullptr;
  const RowShape s = norm_shape(desc, 1);
  const auto rows = Pieces::of(s.rows, std::max<int64_t>(64, ceil_div(s.rows, kMaxPartials)), 4);
  const int64_t width = round_up(s.columns, kAlignFloats);
  const auto bytes = static_cast<uint64_t>(rows.count() * 2 * width) * sizeof(float);
  return make_kernel(
      kName, bytes, [s, host, rows, width, acc = Accumulation(desc)](const Launch& l) {
        auto* partials = l.workspace<float>();
        for_tasks(host, rows.count(), [&](int64_t task, uint32_t) {
          const int64_t r = rows.begin(task), at = r * s.columns;
          float* partial = partials + task * 2 * width;
          norm_kernels().parameters(l.input(0) + at, l.input(1) + at, l.input(2) + r,
                                    l.input(3) + r, partial, partial + width, rows.length(task),
                                    s.columns);
        });
        for (size_t o = 0; o < 2; ++o) {
          float* out = l.output(o);
          if (!acc.adds(l, o)) std::fill_n(out, s.columns, 0.0f);
          for (int64_t t = 0; t < rows.count(); ++t) {
            sum_kernels().add(partials + (2 * t + static_cast<int64_t>(o)) * width, out, s.columns);
          }
        }
      });
}

}  // namespace megatron::cpu::vectorised
