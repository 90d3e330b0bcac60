// linear and its gradients: the three products, one double sum an element.
#include "reference/reference.hpp"
#include "shapes/product_shape.hpp"

namespace megatron::cpu::reference {
namespace {

// c[i, j] (+)= sum over l of a(i, l) * b(j, l), each operand given by the strides of its indices.
struct Strides {
  int64_t outer, inner;
};
void product(int64_t rows, int64_t columns, int64_t inner, const float* a, Strides sa,
             const float* b, Strides sb, float* c, bool add) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = add ? static_cast<double>(c[i * columns + j]) : 0.0;
      for (int64_t l = 0; l < inner; ++l) {
        sum += static_cast<double>(a[i * sa.outer + l * sa.inner]) *
               static_cast<double>(b[j * sb.outer + l * sb.inner]);
      }
      c[i * columns + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

// y[m, n] = x[m, k] · w[n, k]ᵀ
std::unique_ptr<Kernel> linear(const KernelDesc& desc, const Host&, std::string& reason) {
  const auto p = linear_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return make_kernel(kName, 0, [p](const Launch& l) {
    product(p.m, p.n, p.k, l.input(0), {p.k, 1}, l.input(1), {p.k, 1}, l.output(0), false);
  });
}

// dx[m, k] = dy[m, n] · w[n, k]
std::unique_ptr<Kernel> linear_dgrad(const KernelDesc& desc, const Host&, std::string& reason) {
  const auto p = linear_dgrad_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return make_kernel(kName, 0, [p](const Launch& l) {
    product(p.m, p.k, p.n, l.input(0), {p.n, 1}, l.input(1), {1, p.k}, l.output(0), false);
  });
}

// dw[n, k] (+)= dy[m, n]ᵀ · x[m, k]
std::unique_ptr<Kernel> linear_wgrad(const KernelDesc& desc, const Host&, std::string& reason) {
  const auto p = linear_wgrad_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return make_kernel(kName, 0, [p, acc = Accumulation(desc)](const Launch& l) {
    product(p.n, p.k, p.m, l.input(0), {1, p.n}, l.input(1), {1, p.k}, l.output(0), acc.adds(l, 0));
  });
}

}  // namespace megatron::cpu::reference
