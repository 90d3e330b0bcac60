// linear and its gradients: the three forms of one matrix product.
#include "gemm_pool.hpp"
#include "shapes/product_shape.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu::vectorised {
namespace {

std::unique_ptr<Kernel> product(const KernelDesc& desc, const Host& host, const GemmShape& shape) {
  const auto plan = GemmPlan::make(shape);
  return make_kernel(kName, gemm_workspace(plan, host),
                     [plan, host, acc = Accumulation(desc)](const Launch& l) {
                       run_gemm(plan, host, l.input(0), l.input(1), l.output(0), 1.0f,
                                acc.adds(l, 0), l.workspace());
                     });
}

}  // namespace

// y[m, n] = x[m, k] · w[n, k]ᵀ
std::unique_ptr<Kernel> linear(const KernelDesc& desc, const Host& host, std::string& reason) {
  const auto p = linear_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return product(desc, host, {GemmForm::nt, p.m, p.n, p.k, p.k, p.k, p.n});
}

// dx[m, k] = dy[m, n] · w[n, k]
std::unique_ptr<Kernel> linear_dgrad(const KernelDesc& desc, const Host& host,
                                     std::string& reason) {
  const auto p = linear_dgrad_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return product(desc, host, {GemmForm::nn, p.m, p.k, p.n, p.n, p.k, p.k});
}

// dw[n, k] (+)= dy[m, n]ᵀ · x[m, k]
std::unique_ptr<Kernel> linear_wgrad(const KernelDesc& desc, const Host& host,
                                     std::string& reason) {
  const auto p = linear_wgrad_shape(desc);
  if (!is_f32(desc, reason)) return nullptr;
  return product(desc, host, {GemmForm::tn, p.n, p.k, p.m, p.n, p.k, p.k});
}

}  // namespace megatron::cpu::vectorised
