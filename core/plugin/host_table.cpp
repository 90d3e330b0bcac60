#include "plugin/host_table.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "megatron/abi/version.h"
#include "megatron/status.hpp"

namespace megatron::plugin {
namespace {

struct Table {
  mgt_host base;
  HostServices* services;
  std::string plugin;
};

// noexcept: an exception of the host must end here and not in a plugin's frames.
void log(void* context, mgt_log_level level, mgt_str message) noexcept {
  auto& table = *static_cast<Table*>(context);
  table.services->log(table.plugin, level, message);
}
uint32_t worker_count(void* context) noexcept {
  return static_cast<Table*>(context)->services->worker_count();
}
void parallel_for(void* context, int64_t tasks, mgt_task_fn fn, void* arg) noexcept {
  static_cast<Table*>(context)->services->parallel_for(tasks, fn, arg);
}
const void* get_extension(void* context, mgt_str id) noexcept {
  return static_cast<Table*>(context)->services->extension(from_abi(id));
}

}  // namespace

const mgt_host* make_host_table(HostServices& services, std::string plugin) {
  static auto& tables = *new std::vector<std::unique_ptr<Table>>;  // reachable for leak checkers
  auto& table =
      *tables.emplace_back(std::make_unique<Table>(Table{{}, &services, std::move(plugin)}));
  MGT_INIT(&table.base);
  table.base.abi_major = MGT_ABI_MAJOR;
  table.base.abi_minor = MGT_ABI_MINOR;
  table.base.context = &table;
  table.base.log = &log;
  table.base.worker_count = &worker_count;
  table.base.parallel_for = &parallel_for;
  table.base.get_extension = &get_extension;
  return &table.base;
}

}  // namespace megatron::plugin
