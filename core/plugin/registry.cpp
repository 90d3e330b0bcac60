#include "plugin/registry.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "base/suggest.hpp"
#include "plugin/dynamic_library.hpp"
#include "plugin/kind.hpp"
#include "plugin/plugin_table.hpp"

namespace megatron::plugin {
namespace {

// A plugin's own text may have several lines; they stay together under the fact.
std::string indented(std::string_view message) {
  std::string out;
  for (const char c : message) {
    out += c;
    if (c == '\n') out += "  ";
  }
  while (out.ends_with(' ') || out.ends_with('\n')) out.pop_back();
  return out;
}

Status initialisation_error(const PluginRow& row, const Status& cause) {
  const bool has_action = cause.diagnosis().size() < cause.message().size();
  return Status::error(kUnusable, text("plugin '", row.path, "' failed to initialise"),
                       indented(cause.message()),
                       has_action ? ""
                                  : text("resolve what the plugin (version ", row.note->version,
                                         ") reports, or ask its author"));
}

// The entry point is foreign code: no exception of it may pass, whatever it was built from.
Result<const mgt_plugin*> call_entry(const PluginRow& row, mgt_plugin_entry_fn entry,
                                     const mgt_host* host) {
  const std::string who = text("plugin '", row.name, "'");
  const mgt_plugin* plugin = nullptr;
  std::optional<Status> thrown;
  mgt_status* raw = nullptr;
  try {
    raw = entry(host, &plugin);
  } catch (const std::exception& e) {
    thrown = internal_error(
        text(who, " threw an exception out of its entry point (a bug in ", who, "): ", e.what()));
  } catch (...) {
    thrown =
        internal_error(text(who, " threw something out of its entry point (a bug in ", who, ")"));
  }
  const Status status = thrown.has_value() ? *thrown : from_abi(raw, who);
  if (!status.ok()) return initialisation_error(row, status);
  return plugin;
}

}  // namespace

Registry::Registry(SearchPath search, HostServices& services, const HostFacts& host,
                   const LoaderEnvironment& loader)
    : search_(std::move(search)), services_(services), found_(scan(search_, host, loader)) {}

const PluginRow* Registry::find(std::string_view kind, std::string_view name) const {
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const PluginRow& r) {
    return r.kind == kind && r.name == name && r.state != State::shadowed;
  });
  return row == rows().end() ? nullptr : &*row;
}

Result<LoadedPlugin> Registry::load(mgt_kind kind, std::string_view name) {
  const PluginRow* row = find(kind_name(kind), name);
  if (row == nullptr) return not_found(kind_name(kind), name);
  if (!row->problem.ok()) return row->problem;
  if (const auto known = loaded_.find(row->path); known != loaded_.end()) return known->second;
  MGT_ASSIGN_OR_RETURN(LoadedPlugin plugin, load_file(*row));
  loaded_.emplace(row->path, plugin);
  return plugin;
}

Result<LoadedPlugin> Registry::load_file(const PluginRow& row) {
  const auto unusable = [&](const Status& problem) {
    const bool absent = problem.code() == Code::unavailable;
    return Status(kUnusable, text("plugin '", row.path, "' ",
                                  state_name(absent ? State::unavailable : State::refused), ": ",
                                  problem.message()));
  };
  const auto library = DynamicLibrary::load(row.path);
  if (!library.ok()) return unusable(library.status());
  const auto symbol = library->own_symbol(MGT_PLUGIN_ENTRY);
  if (!symbol.ok()) return unusable(symbol.status());
  const auto entry = reinterpret_cast<mgt_plugin_entry_fn>(*symbol);

  const mgt_host* host = make_host_table(services_, row.name);
  MGT_ASSIGN_OR_RETURN(const mgt_plugin* const plugin, call_entry(row, entry, host));
  if (const Status checked = check_plugin(plugin, *row.note); !checked.ok())
    return unusable(checked);
  return LoadedPlugin(plugin, host, row.path);
}

Status Registry::not_found(std::string_view kind, std::string_view name) const {
  std::vector<std::string> names, other_kinds;
  for (const PluginRow& row : rows()) {
    if (row.state == State::shadowed) continue;
    if (kind.empty() || row.kind == kind) names.push_back(row.name);
    if (row.name == name && row.kind != kind) other_kinds.push_back(row.kind);
  }
  std::string action;
  if (const auto near = near_names(name, names); !near.empty()) {
    action = text("did you mean ", list_names(near), "?");
  } else if (!other_kinds.empty()) {
    action =
        text("'", name, "' is the name of a plugin of another kind: ", list_names(other_kinds, ""),
             "; name it there");
  } else {
    action = text("put ", plugin_file_name(kind.empty() ? "<kind>" : kind, name),
                  " into one of these folders, or name its folder with --plugin-path");
  }
  return Status::error(kUnusable,
                       text(kind, kind.empty() ? "" : " ", "plugin '", name, "' not found"),
                       text("searched, in this order: ", describe(search_)), action);
}

}  // namespace megatron::plugin
