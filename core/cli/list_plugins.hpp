// The two outputs of `list-plugins`.
#pragma once

#include <string>
#include <vector>

#include "plugin/registry.hpp"

namespace megatron::cli {

// One line a plugin; why it cannot be used on a line of its own beneath. Where the lines would be
// longer than `width`, the path moves beneath too.
std::string plugin_table(const std::vector<plugin::PluginRow>& rows, size_t width);

// {"plugins": [{kind, name, version, abi, tier, state, reason, path, …}], "searched": [{path,
// origin}]}. What a file without a readable note does not tell is null.
std::string plugin_json(const std::vector<plugin::PluginRow>& rows,
                        const plugin::SearchPath& search);

}  // namespace megatron::cli
