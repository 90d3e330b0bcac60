#include "common/operation.hpp"
#include "communicator.hpp"

namespace {

constexpr megatron::Option kOptions[] = {
    megatron::option("timeout", MGT_OPTION_FLOAT, "600.0",
                     "seconds that an operation may take when it does not say so itself")
        .above(0)
        .at_most(megatron::comm::kMaxTimeout),
};

}  // namespace

MEGATRON_PLUGIN(mgt_comm, "0.1.0", .description = "MPI, for sites where mpirun starts the ranks.",
                .options = kOptions,
                .table = megatron::comm_table<megatron::mpi::MpiCommunicator>());
