// Entry of megatron-device-cpu.so.
#include "cpu_device.hpp"

namespace {

constexpr mgt_str kImplementations[] = {{"auto", 4}, {"reference", 9}};
const megatron::Option kOptions[] = {
    megatron::option(
        "implementation", MGT_OPTION_STRING, "\"auto\"",
        "which implementation of each op: the first that accepts the shape, or the plain "
        "reference")
        .one_of(kImplementations)};

}  // namespace

MEGATRON_PLUGIN(mgt_device, "0.1.0",
                .description = "CPU kernels, vectorised for the processor found.",
                .options = kOptions, .table = megatron::device_table<megatron::cpu::CpuDevice>());
