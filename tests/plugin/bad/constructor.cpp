// A good plugin that leaves a trace when it is loaded: a listing must not find one.
#include <cstdio>
#include <cstdlib>

#include "pieces.hpp"

namespace {
struct Witness {
  Witness() {
    const char* path = std::getenv("MEGATRON_TEST_WITNESS");
    if (path == nullptr) return;
    if (std::FILE* file = std::fopen(path, "w"); file != nullptr) std::fclose(file);
  }
} witness;
}  // namespace

BAD_NOTE();
BAD_ENTRY {
  static const mgt_optimizer table = bad::whole_table();
  static const mgt_plugin plugin = bad::whole_plugin(&table);
  *out = &plugin;
  return nullptr;
}
