// The CPU device: host memory, and kernels that run on the host's shared thread pool. The oracle
// for every other device; needs no accelerator library.
#pragma once

#include <memory>
#include <string>

#include "megatron/device.hpp"
#include "memory.hpp"

namespace megatron::cpu {

class CpuDevice final : public Device {
 public:
  CpuDevice(const Host& host, const Config& config);

  DeviceInfo info() const override;
  void* allocate(uint64_t bytes) override { return memory_.allocate(bytes); }
  void free(void* memory) noexcept override { memory_.free(memory); }
  void upload(void* device, const void* host, uint64_t bytes) override;
  void download(void* host, const void* device, uint64_t bytes) override;
  void zero(void* device, uint64_t bytes) override;
  std::unique_ptr<Kernel> prepare(const KernelDesc& desc) override;

 private:
  // In pieces on all workers; small copies on the caller's thread.
  void copy(void* to, const void* from, uint64_t bytes) const;

  Host host_;
  std::string implementation_;  // empty: the first that accepts
  std::string description_;
  uint64_t memory_bytes_;
  MemoryBlocks memory_;
};

}  // namespace megatron::cpu
