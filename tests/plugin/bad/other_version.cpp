// The note is of another build than the entry point.
#include "pieces.hpp"

BAD_NOTE(n.desc.version[0] = '2');
BAD_ENTRY {
  static const mgt_optimizer table = bad::whole_table();
  static const mgt_plugin plugin = bad::whole_plugin(&table);
  *out = &plugin;
  return nullptr;
}
