// MPI's start and end in this process.
#pragma once

#include <mpi.h>

#include <string_view>

#include "megatron/status.hpp"

namespace megatron::mpi {

// The action of every message about a call that MPI refused.
Status mpi_error(std::string_view what, int code);

class Runtime {
 public:
  // FAILED_PRECONDITION: mpirun did not start this process, or its ranks are not those of the run.
  static Status start(uint32_t rank, uint32_t world_size);
  // Not after a failure: it would wait for operations that never complete.
  static void finish();
};

}  // namespace megatron::mpi
