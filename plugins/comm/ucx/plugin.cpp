#include "common/operation.hpp"
#include "communicator.hpp"

namespace {

constexpr megatron::Option kOptions[] = {
    megatron::option("timeout", MGT_OPTION_FLOAT, "600.0",
                     "seconds that an operation may take when it does not say so itself, and that "
                     "ranks wait for each other at creation")
        .above(0)
        .at_most(megatron::comm::kMaxTimeout),
    megatron::option("spin_us", MGT_OPTION_INT, "50",
                     "microseconds that a waiting thread looks for news before it sleeps")
        .at_least(0)
        .at_most(10000),
    megatron::option("transports", MGT_OPTION_STRING, "\"^posix,sysv,cma\"",
                     "between hosts: UCX_TLS, e.g. \"tcp\" or \"rc,ud\"; \"\" leaves it to UCX"),
    megatron::option(
        "devices", MGT_OPTION_STRING, "\"\"",
        "between hosts: UCX_NET_DEVICES, e.g. \"eth0\" or \"mlx5_0:1\"; \"\" leaves it "
        "to UCX"),
};

}  // namespace

MEGATRON_PLUGIN(mgt_comm, "0.1.0",
                .description = "Shared memory within a host, UCX (TCP, RDMA) between hosts.",
                .options = kOptions,
                .table = megatron::comm_table<megatron::ucx::UcxCommunicator>());
