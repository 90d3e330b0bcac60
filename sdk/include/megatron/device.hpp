// Author's side of plugin kind `device`: memory and kernels by op name. A device never sees the
// graph. docs/ops.md says what each op computes.
#pragma once

#include <memory>
#include <string_view>

#include "megatron/abi/device.h"
#include "megatron/device/kernel_desc.hpp"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_device, MGT_KIND_DEVICE);

// One run of a prepared kernel; valid during the call.
class Launch {
 public:
  explicit Launch(const mgt_launch& abi) : abi_(&abi) {}
  template <class T = float>
  const T* input(size_t i) const {
    return static_cast<const T*>(abi_->inputs[i]);
  }
  template <class T = float>
  T* output(size_t i) const {
    return static_cast<T*>(abi_->outputs[i]);
  }
  double scalar(size_t i) const { return abi_->scalars[i]; }
  template <class T = void>
  T* workspace() const {
    return static_cast<T*>(abi_->workspace);
  }
  // Zeros when the host passed none: then no op of the program draws numbers.
  mgt_rng_key rng() const { return abi_->rng != nullptr ? *abi_->rng : mgt_rng_key{}; }

 private:
  const mgt_launch* abi_;
};

// Whether a launch adds to an output's memory; remembers what KernelDesc says about it.
class Accumulation {
 public:
  Accumulation() = default;
  explicit Accumulation(const KernelDesc& desc)
      : mask_(desc.accumulate_mask), flag_(desc.scalar_count - 1) {
    if (mask_ != 0 && desc.scalar_count == 0) {
      throw StatusError(internal_error(
          text("op '", desc.op, "' accumulates but has no scalar that says whether to add")));
    }
  }
  bool adds(const Launch& launch, size_t output) const {
    return ((mask_ >> output) & 1) != 0 && launch.scalar(flag_) != 0;
  }

 private:
  uint64_t mask_ = 0;
  uint64_t flag_ = 0;
};

// One op at one shape. Immutable after it was made: the host may launch it again and again.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // "vectorised", "reference", …: static storage, or a member.
  virtual std::string_view implementation() const = 0;
  virtual uint64_t workspace_bytes() const { return 0; }
  // Must not allocate.
  virtual void launch(const Launch& launch) const = 0;
};

struct DeviceInfo {
  std::string_view description;  // static storage, or a member of the device
  uint64_t memory_bytes = 0;     // 0 = unknown
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  // Aligned to at least 4096 bytes, contents unspecified; bytes > 0.
  virtual void* allocate(uint64_t bytes) = 0;
  virtual void free(void* memory) noexcept = 0;
  virtual void upload(void* device, const void* host, uint64_t bytes) = 0;
  virtual void download(void* host, const void* device, uint64_t bytes) = 0;
  virtual void zero(void* device, uint64_t bytes) = 0;
  // Throws StatusError: UNIMPLEMENTED when no implementation accepts the op, with each one's
  // reason.
  virtual std::unique_ptr<Kernel> prepare(const KernelDesc& desc) = 0;
  virtual void launch(const Kernel& kernel, const Launch& launch, void* /*stream*/) {
    kernel.launch(launch);
  }
  virtual void synchronize(void* /*stream*/) {}
};

// Table for `T : Device` with a constructor T(const Host&, const Config&).
template <class T>
const mgt_device* device_table() {
  static const mgt_device table{
      sizeof(mgt_device),
      0,
      [](const mgt_host* host, const mgt_config* config, void** self) {
        return guarded([&] { *self = new T(Host(host), Config(config)); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](const void* self, mgt_device_info* out) {
        return guarded([&] {
          const DeviceInfo info = static_cast<const T*>(self)->info();
          MGT_INIT(out);
          out->description = to_abi(info.description);
          out->memory_bytes = info.memory_bytes;
        });
      },
      [](void* self, uint64_t bytes, void** out) {
        return guarded([&] { *out = static_cast<T*>(self)->allocate(bytes); });
      },
      [](void* self, void* memory) { static_cast<T*>(self)->free(memory); },
      [](void* self, void* device, const void* host, uint64_t bytes) {
        return guarded([&] { static_cast<T*>(self)->upload(device, host, bytes); });
      },
      [](void* self, void* host, const void* device, uint64_t bytes) {
        return guarded([&] { static_cast<T*>(self)->download(host, device, bytes); });
      },
      [](void* self, void* device, uint64_t bytes) {
        return guarded([&] { static_cast<T*>(self)->zero(device, bytes); });
      },
      [](void* self, const mgt_kernel_desc* desc, void** kernel, mgt_kernel_info* info) {
        return guarded([&] {
          std::unique_ptr<Kernel> made = static_cast<T*>(self)->prepare(KernelDesc::read(*desc));
          MGT_INIT(info);
          info->workspace_bytes = made->workspace_bytes();
          info->implementation = to_abi(made->implementation());
          *kernel = made.release();
        });
      },
      [](void*, void* kernel) { delete static_cast<Kernel*>(kernel); },
      [](void* self, void* kernel, const mgt_launch* launch, void* stream) {
        return guarded([&] {
          static_cast<T*>(self)->launch(*static_cast<const Kernel*>(kernel), Launch(*launch),
                                        stream);
        });
      },
      [](void* self, void* stream) {
        return guarded([&] { static_cast<T*>(self)->synchronize(stream); });
      }};
  return &table;
}

}  // namespace megatron
