#include "pieces.hpp"

BAD_NOTE();
BAD_ENTRY {
  static const mgt_optimizer table = [] {
    mgt_optimizer t = bad::whole_table();
    t.struct_size = offsetof(mgt_optimizer, build_update);
    return t;
  }();
  static const mgt_plugin plugin = bad::whole_plugin(&table);
  *out = &plugin;
  return nullptr;
}
