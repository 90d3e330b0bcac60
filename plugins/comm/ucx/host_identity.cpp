#include "host_identity.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace megatron::ucx {

std::string host_identity() {
  if (const char* given = std::getenv(kHostVariable); given != nullptr && *given != '\0') {
    return std::string("given:") + given;
  }
  std::string identity;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity;
  if (identity.empty()) {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    identity = name;
  }
  // Abstract sockets belong to a network namespace, process numbers to a PID namespace.
  for (const char* kind : {"net", "pid", "user"}) {
    struct stat info {};
    const std::string path = std::string("/proc/self/ns/") + kind;
    if (::stat(path.c_str(), &info) == 0) identity += "/" + std::to_string(info.st_ino);
  }
  return identity;
}

}  // namespace megatron::ucx
