// The plugins of this process: what the search path offers, and those that were asked for. Foreign
// code runs in load() and nowhere else. One registry a process, used by the main thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/status.hpp"
#include "plugin/compatibility.hpp"
#include "plugin/host_table.hpp"
#include "plugin/loaded_plugin.hpp"
#include "plugin/needed_libraries.hpp"
#include "plugin/scan.hpp"
#include "plugin/search_path.hpp"

namespace megatron::plugin {

class Registry {
 public:
  // Scans now. `services` must outlive the last call into any loaded plugin.
  Registry(SearchPath search, HostServices& services, const HostFacts& host = this_host(),
           const LoaderEnvironment& loader = system_loader_environment());

  const SearchPath& search_path() const { return search_; }
  const std::vector<PluginRow>& rows() const { return found_.rows; }
  const std::vector<Status>& warnings() const { return found_.warnings; }

  // Loads the plugin, or returns it when it is loaded already. Every error is kUnusable: not
  // found, with the folders and near names; refused or unavailable; failed to load or to
  // initialise.
  Result<LoadedPlugin> load(mgt_kind kind, std::string_view name);

  // The row that load() would take; null when there is none.
  const PluginRow* find(std::string_view kind, std::string_view name) const;

  // The error of load() for a name that nothing has. `kind` may be empty: any kind.
  Status not_found(std::string_view kind, std::string_view name) const;

 private:
  Result<LoadedPlugin> load_file(const PluginRow& row);

  SearchPath search_;
  HostServices& services_;
  ScanResult found_;
  std::map<std::string, LoadedPlugin> loaded_;  // by path
};

}  // namespace megatron::plugin
