#include "cli/command.hpp"

#include <utility>

#include "cli/numbers.hpp"
#include "launch/environment.hpp"
#include "log/log.hpp"

namespace megatron::cli {
namespace {

class LoggingServices final : public plugin::HostServices {
 public:
  void log(std::string_view plugin, mgt_log_level level, mgt_str message) override {
    megatron::log::write_plugin(plugin, level, message);
  }
  uint32_t worker_count() override { return 1; }
  void parallel_for(int64_t tasks, mgt_task_fn fn, void* arg) override {
    for (int64_t task = 0; task < tasks; ++task) fn(arg, task, 0);
  }
};

}  // namespace

void add_manifest_arguments(CLI::App& command, ManifestArguments& arguments,
                            const std::string& ranks_help) {
  command.add_option("manifest", arguments.manifest, "The experiment (TOML)")
      ->required()
      ->type_name("FILE");
  command.add_option("--set", arguments.overrides, "Override a value of the manifest")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  add_integer(command, "--ranks", arguments.ranks, 1, launch::kMaxRanks,
              ranks_help + "; default: as many as [[parallel]] asks for");
}

Result<plugin::Registry> open_registry(const Context& context, plugin::HostServices& services) {
  MGT_ASSIGN_OR_RETURN(plugin::SearchPath search,
                       plugin::make_search_path(context.plugin_files, context.plugin_folders,
                                                plugin::system_search_environment()));
  plugin::Registry registry(std::move(search), services);
  for (const Status& warning : registry.warnings()) log::warning(warning.message());
  return registry;
}

plugin::HostServices& serial_services() {
  static auto& services = *new LoggingServices;  // plugins stay loaded until the very end
  return services;
}

}  // namespace megatron::cli
