/* The one symbol that a plugin exports, and what it returns. C11 and C++20. */
#ifndef MEGATRON_ABI_PLUGIN_H
#define MEGATRON_ABI_PLUGIN_H

#include "host.h"
#include "note.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MGT_PLUGIN_ENTRY "megatron_plugin_entry"

typedef struct mgt_plugin {
  uint32_t struct_size;
  mgt_kind kind;
  mgt_str name;
  mgt_str version;
  mgt_str description;       /* one sentence */
  const mgt_option* options; /* schema of the plugin's section; static storage */
  uint64_t option_count;
  const void* table; /* mgt_model, mgt_optimizer, … as `kind` says; static storage */
} mgt_plugin;

/* Called once, on the main thread, after the note was accepted. On success *out points to static
 * storage of the plugin. Must not start threads, change the locale, environment or signal handlers.
 */
typedef mgt_status* (*mgt_plugin_entry_fn)(const mgt_host* host, const mgt_plugin** out);

#ifdef __cplusplus
}
#endif
#endif
