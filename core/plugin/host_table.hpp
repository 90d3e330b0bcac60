// The mgt_host table that a plugin is given, over what the host's owner provides. Each plugin gets
// its own, so that log lines name their author.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "megatron/abi/host.h"

namespace megatron::plugin {

// What stands behind the table. All functions are called from any thread and must not throw; the
// object outlives the process's last call into a plugin.
class HostServices {
 public:
  virtual ~HostServices() = default;
  virtual void log(std::string_view plugin, mgt_log_level level, mgt_str message) = 0;
  // See mgt_host: the one thread budget.
  virtual uint32_t worker_count() = 0;
  virtual void parallel_for(int64_t tasks, mgt_task_fn fn, void* arg) = 0;
  // Optional features by id; null when there is none.
  virtual const void* extension(std::string_view id) {
    static_cast<void>(id);
    return nullptr;
  }
};

// The table is never freed: a plugin may keep it for as long as it is loaded, which is forever.
const mgt_host* make_host_table(HostServices& services, std::string plugin);

}  // namespace megatron::plugin
