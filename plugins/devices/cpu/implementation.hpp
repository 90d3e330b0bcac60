// How an op gets its kernel: an ordered list of implementations, of which the first that accepts
// the shape wins; each of the others leaves a printable reason.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "megatron/device.hpp"
#include "shapes/labels.hpp"

namespace megatron::cpu {

// Returns null and sets `reason` when the implementation does not take this kernel; throws
// StatusError when the description itself is wrong (no implementation could take it).
using MakeKernel = std::unique_ptr<Kernel> (*)(const KernelDesc& desc, const Host& host,
                                               std::string& reason);

struct Implementation {
  std::string_view name;
  MakeKernel make;
};

struct OpRow {
  std::string_view op;
  std::span<const Implementation> implementations;  // in order of preference, reference last
  LabelPattern labels = {};
};

// All ops of this device. See op_table.cpp.
std::span<const OpRow> op_rows();

// Walks the list of the op; `only` restricts it to implementations of that name ("" = all).
// UNIMPLEMENTED, with all reasons, when none accepts.
std::unique_ptr<Kernel> prepare_kernel(const KernelDesc& desc, const Host& host,
                                       std::string_view only);

// A kernel made of a name, a size and a callable void(const Launch&).
template <class Body>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::string_view implementation, uint64_t workspace, Body body)
      : implementation_(implementation), workspace_(workspace), body_(std::move(body)) {}
  std::string_view implementation() const override { return implementation_; }
  uint64_t workspace_bytes() const override { return workspace_; }
  void launch(const Launch& launch) const override { body_(launch); }

 private:
  std::string_view implementation_;
  uint64_t workspace_;
  Body body_;
};

// `implementation` has static storage.
template <class Body>
std::unique_ptr<Kernel> make_kernel(std::string_view implementation, uint64_t workspace,
                                    Body body) {
  return std::make_unique<FunctionKernel<Body>>(implementation, workspace, std::move(body));
}

}  // namespace megatron::cpu
