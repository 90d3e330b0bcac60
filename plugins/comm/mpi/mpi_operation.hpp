// One operation as MPI calls: usually one, else an exchange of shares, a reduction of this plugin's
// own, and the distribution of the results.
#pragma once

#include <mpi.h>

#include <vector>

#include "common/operation.hpp"

namespace megatron::mpi {

class MpiOperation {
 public:
  // `operation` outlives this object. ranks, rank: of the communicator.
  MpiOperation(const comm::Operation& operation, MPI_Comm communicator, uint32_t ranks,
               uint32_t rank);

  Status start();
  // Asks MPI; true when complete.
  Result<bool> test();

 private:
  // MPI can add this up itself, and the order is its own affair.
  bool native() const;
  MPI_Datatype type() const;
  Status start_reduce();
  Status start_exchange();
  void reduce_share();
  Status start_gather();
  struct Range {
    uint64_t begin, end;
  };
  Range share(uint32_t rank) const;

  const comm::Operation& o_;
  MPI_Comm communicator_;
  uint32_t n_, self_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  enum class Stage { last, exchange, gather } stage_ = Stage::last;
  std::vector<std::byte> shares_;  // own share of every rank
  std::vector<int> counts_[2], displacements_[2];
};

}  // namespace megatron::mpi
