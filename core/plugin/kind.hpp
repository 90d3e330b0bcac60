// Names of plugin kinds and tiers, and of plugin files: megatron-<kind>-<name>.so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "megatron/abi/note.h"

namespace megatron::plugin {

// "model", "parallel", …; "kind 9" for a number that this host does not know.
std::string kind_name(mgt_kind kind);
bool is_known_kind(mgt_kind kind);
std::optional<mgt_kind> parse_kind(std::string_view name);
// In the order of their numbers.
std::span<const std::string> kind_names();

// "stable", "exact"; "tier 9" for an unknown one.
std::string tier_name(mgt_tier tier);

// Matches [a-z][a-z0-9_]*.
bool is_plugin_name(std::string_view name);

struct PluginFileName {
  std::string kind;  // as written: perhaps not a kind of this host
  std::string name;
};
// nullopt for a file that does not claim to be a plugin.
std::optional<PluginFileName> parse_file_name(std::string_view file_name);
std::string plugin_file_name(std::string_view kind, std::string_view name);

}  // namespace megatron::plugin
