// The communicator over MPI_COMM_WORLD.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "megatron/comm.hpp"
#include "progress.hpp"

namespace megatron::mpi {

class MpiGroup;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(const Config& config, const CommContext& context);
  ~MpiCommunicator() override;

  std::unique_ptr<CommGroup> group(std::string_view name, std::span<const uint32_t> ranks) override;
  void* allocate(uint64_t bytes) override;
  void free(void* memory) noexcept override;
  void abort(std::string_view reason) noexcept override { progress_.abort(std::string(reason)); }

 private:
  // Announces a late unit in the store; past its deadline, the report.
  Status look_at(Unit& unit);

  uint32_t rank_;
  std::optional<Store> store_;
  std::chrono::milliseconds timeout_;
  uint32_t groups_ = 0;
  Progress progress_;
};

}  // namespace megatron::mpi
