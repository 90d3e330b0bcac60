// The host's side of plugin kind `device`: a device that somebody else owns, with C++ types.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "megatron/abi/device.h"
#include "megatron/device/kernel_desc.hpp"
#include "megatron/status.hpp"

namespace megatron {

// A prepared kernel; released with its device's table. Must not outlive the device.
class KernelHandle {
 public:
  KernelHandle() = default;
  KernelHandle(const mgt_device* table, void* self, void* kernel, const mgt_kernel_info& info)
      : table_(table), self_(self), kernel_(kernel), info_(info) {}
  KernelHandle(KernelHandle&& other) noexcept { swap(other); }
  KernelHandle& operator=(KernelHandle&& other) noexcept { return swap(other), *this; }
  ~KernelHandle() {
    if (kernel_ != nullptr) table_->release(self_, kernel_);
  }

  uint64_t workspace_bytes() const { return info_.workspace_bytes; }
  std::string_view implementation() const { return from_abi(info_.implementation); }
  // Allocates nothing unless it fails.
  Status launch(std::span<void* const> inputs, std::span<void* const> outputs,
                std::span<const double> scalars = {}, void* workspace = nullptr,
                const mgt_rng_key* rng = nullptr, void* stream = nullptr) const {
    mgt_launch abi;
    MGT_INIT(&abi);
    abi.inputs = inputs.data();
    abi.outputs = outputs.data();
    abi.scalars = scalars.data();
    abi.workspace = workspace;
    abi.rng = rng;
    return from_abi(table_->launch(self_, kernel_, &abi, stream), "the device");
  }

 private:
  void swap(KernelHandle& other) {
    std::swap(table_, other.table_);
    std::swap(self_, other.self_);
    std::swap(kernel_, other.kernel_);
    std::swap(info_, other.info_);
  }
  const mgt_device* table_ = nullptr;
  void* self_ = nullptr;
  void* kernel_ = nullptr;
  mgt_kernel_info info_{};
};

class DeviceView {
 public:
  DeviceView() = default;
  DeviceView(const mgt_device* table, void* self) : table_(table), self_(self) {}

  Result<std::string> description() const {
    mgt_device_info info;
    MGT_INIT(&info);
    MGT_RETURN_IF_ERROR(from_abi(table_->info(self_, &info), kWho));
    return std::string(from_abi(info.description));
  }
  Result<void*> allocate(uint64_t bytes) const {
    void* memory = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(table_->allocate(self_, bytes, &memory), kWho));
    return memory;
  }
  void free(void* memory) const { table_->free(self_, memory); }
  Status upload(void* device, const void* host, uint64_t bytes) const {
    return from_abi(table_->upload(self_, device, host, bytes), kWho);
  }
  Status download(void* host, const void* device, uint64_t bytes) const {
    return from_abi(table_->download(self_, host, device, bytes), kWho);
  }
  Status zero(void* device, uint64_t bytes) const {
    return from_abi(table_->zero(self_, device, bytes), kWho);
  }
  Result<KernelHandle> prepare(const KernelDesc& desc) const {
    const AbiKernelDesc abi(desc);
    void* kernel = nullptr;
    mgt_kernel_info info;
    MGT_INIT(&info);
    MGT_RETURN_IF_ERROR(from_abi(table_->prepare(self_, abi.get(), &kernel, &info), kWho));
    return KernelHandle(table_, self_, kernel, info);
  }
  Status synchronize(void* stream = nullptr) const {
    return from_abi(table_->synchronize(self_, stream), kWho);
  }

 private:
  static constexpr std::string_view kWho = "the device";
  const mgt_device* table_ = nullptr;
  void* self_ = nullptr;
};

}  // namespace megatron
