// --set SECTION.KEY=VALUE on the command line.
#pragma once

#include <span>
#include <string>

#include "config/node.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

// Applies the assignments in order. VALUE is a TOML value; a text that is none is a string. A
// [[section]] is addressed as SECTION.PLUGIN.KEY: the table with that `plugin`, which is added when
// there is none. All malformed assignments are reported together.
Status apply_overrides(Node& root, std::span<const std::string> assignments);

}  // namespace megatron::config
