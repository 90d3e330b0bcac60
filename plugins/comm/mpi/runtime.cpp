#include "runtime.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace megatron::mpi {

Status mpi_error(std::string_view what, int code) {
  char message[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, message, &size);
  return Status::error(Code::unavailable, what,
                       text("MPI says: ", std::string_view(message, static_cast<size_t>(size))),
                       "look at the output of the other ranks and of mpirun");
}

Status Runtime::start(uint32_t rank, uint32_t world_size) {
  const char* const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  bool launched = false;
  for (const char* v : variables) launched = launched || std::getenv(v) != nullptr;
  if (!launched) {
    return Status::error(Code::failed_precondition, "the communication plugin 'mpi' cannot start",
                         "this process was not started by mpirun: OMPI_COMM_WORLD_SIZE is not set",
                         "start the run with `mpirun -n RANKS megatron-host run …`, or choose "
                         "`[comm] plugin = \"ucx\"`");
  }
  int finalized = 0, initialized = 0, provided = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    return Status::error(Code::failed_precondition,
                         "the communication plugin 'mpi' cannot start a second time",
                         "MPI can be started once in a process", "start a new process");
  }
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Query_thread(&provided);
  } else {
    // A plugin's libraries are private to it; MPI's own components look for its symbols globally.
    ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return mpi_error("MPI does not start", code);
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    return Status::error(Code::failed_precondition,
                         "this MPI cannot be called from several threads, one at a time",
                         text("it provides thread level ", provided, ", needed is ",
                              static_cast<int>(MPI_THREAD_SERIALIZED)),
                         "use an MPI that was built with thread support");
  }
  // MPI reports errors of collectives there, whatever communicator they belong to.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int mpi_rank = 0, mpi_size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  if (static_cast<uint32_t>(mpi_rank) != rank || static_cast<uint32_t>(mpi_size) != world_size) {
    return Status::error(Code::failed_precondition, "the ranks of mpirun are not those of the run",
                         text("mpirun says rank ", mpi_rank, " of ", mpi_size,
                              ", the run says rank ", rank, " of ", world_size),
                         "clear RANK and WORLD_SIZE from the environment");
  }
  return {};
}

void Runtime::finish() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

}  // namespace megatron::mpi
