// Pieces of plugins that are wrong on purpose: a note with changes, an entry point with any body,
// and a table that has all its functions.
#pragma once

#include "megatron/abi/optimizer.h"
#include "megatron/plugin.hpp"

// The note that MEGATRON_PLUGIN writes, changed by the statements given, which see it as `n`.
#define BAD_NOTE(...)                                                               \
  __attribute__((section(MGT_NOTE_SECTION), used,                                   \
                 aligned(4))) static constexpr mgt_note bad_note = [] {             \
    mgt_note n = megatron::detail::make_note(MEGATRON_PLUGIN_KIND, MGT_TIER_STABLE, \
                                             MEGATRON_PLUGIN_NAME, "1.0");          \
    __VA_ARGS__;                                                                    \
    return n;                                                                       \
  }()

#define BAD_ENTRY                                                                      \
  extern "C" __attribute__((visibility("default"))) mgt_status* megatron_plugin_entry( \
      [[maybe_unused]] const mgt_host* host, [[maybe_unused]] const mgt_plugin** out)

namespace bad {

inline mgt_optimizer whole_table() {
  mgt_optimizer table;
  MGT_INIT(&table);
  table.create = [](const mgt_host*, const mgt_config*, void**) -> mgt_status* { return nullptr; };
  table.destroy = [](void*) {};
  table.states = [](void*, const mgt_parameter_info*, mgt_state_desc*, uint32_t*) -> mgt_status* {
    return nullptr;
  };
  table.build_update = [](void*, const mgt_builder*, mgt_update*) -> mgt_status* {
    return nullptr;
  };
  return table;
}

// Agrees with the note; `table` has static storage.
inline mgt_plugin whole_plugin(const mgt_optimizer* table) {
  mgt_plugin plugin;
  MGT_INIT(&plugin);
  plugin.kind = MEGATRON_PLUGIN_KIND;
  plugin.name = megatron::to_abi(std::string_view(MEGATRON_PLUGIN_NAME));
  plugin.version = megatron::to_abi(std::string_view("1.0"));
  plugin.description = megatron::to_abi(std::string_view("For a test."));
  plugin.table = table;
  return plugin;
}

}  // namespace bad
