// A whole plugin that needs a library outside every folder of the dynamic loader.
#include "pieces.hpp"

extern "C" void megatron_test_absent();

BAD_NOTE();
BAD_ENTRY {
  megatron_test_absent();
  static const mgt_optimizer table = bad::whole_table();
  static const mgt_plugin plugin = bad::whole_plugin(&table);
  *out = &plugin;
  return nullptr;
}
