// Whether two ranks can share memory: the same running kernel and the same namespaces.
#pragma once

#include <string>

namespace megatron::ucx {

// Environment variable that replaces the identity, so that ranks of one machine act as several
// hosts.
inline constexpr const char* kHostVariable = "MEGATRON_COMM_HOST";

std::string host_identity();

}  // namespace megatron::ucx
