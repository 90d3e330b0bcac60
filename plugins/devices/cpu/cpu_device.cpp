#include "cpu_device.hpp"

#include <hwy/targets.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "implementation.hpp"

namespace megatron::cpu {
namespace {

constexpr uint64_t kCopyPiece = uint64_t{1} << 20;  // bytes a task

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const auto colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

CpuDevice::CpuDevice(const Host& host, const Config& config) : host_(host) {
  const std::string choice = config.string("implementation");
  if (choice != "auto") implementation_ = choice;
  // The best instruction set is the lowest bit.
  const int64_t targets = hwy::SupportedTargets();
  description_ = text(processor_name(), ", ", hwy::TargetName(targets & -targets), ", ",
                      host.workers(), " threads");
  memory_bytes_ =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

DeviceInfo CpuDevice::info() const { return {description_, memory_bytes_}; }

void CpuDevice::copy(void* to, const void* from, uint64_t bytes) const {
  if (bytes <= kCopyPiece) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  host_.parallel_for(
      static_cast<int64_t>((bytes + kCopyPiece - 1) / kCopyPiece), [&](int64_t task, uint32_t) {
        const uint64_t begin = static_cast<uint64_t>(task) * kCopyPiece;
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    std::min(kCopyPiece, bytes - begin));
      });
}

void CpuDevice::upload(void* device, const void* host, uint64_t bytes) {
  copy(device, host, bytes);
}

void CpuDevice::download(void* host, const void* device, uint64_t bytes) {
  copy(host, device, bytes);
}

void CpuDevice::zero(void* device, uint64_t bytes) {
  host_.parallel_for(
      static_cast<int64_t>((bytes + kCopyPiece - 1) / kCopyPiece), [&](int64_t task, uint32_t) {
        const uint64_t begin = static_cast<uint64_t>(task) * kCopyPiece;
        std::memset(static_cast<char*>(device) + begin, 0, std::min(kCopyPiece, bytes - begin));
      });
}

std::unique_ptr<Kernel> CpuDevice::prepare(const KernelDesc& desc) {
  return prepare_kernel(desc, host_, implementation_);
}

}  // namespace megatron::cpu
