// Which rank of which world this process is: from torchrun-style variables (which the local
// launcher sets too), Slurm or Open MPI.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "megatron/status.hpp"

namespace megatron::launch {

inline constexpr uint32_t kMaxRanks = uint32_t{1} << 20;  // of a run

struct RankInfo {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t local_rank = 0;  // among the ranks of this host
  uint32_t local_size = 1;
  std::string store_host;  // where rank 0 serves the rendezvous store; "" when world_size is 1
  uint16_t store_port = 0;
  std::string token;   // both ends must know it: a store answers nobody else
  std::string source;  // "torchrun variables", "Slurm", "Open MPI"
};

// Environment by name; nothing when it is not set.
using GetEnv = std::function<std::optional<std::string>(std::string_view name)>;
GetEnv process_environment();

// Nothing: no launcher started this process. An incomplete or contradictory environment is an error
// that names the variable.
Result<std::optional<RankInfo>> detect_rank(const GetEnv& env);

}  // namespace megatron::launch
