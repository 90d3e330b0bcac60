// Assignments on the command line: --set SECTION.KEY=VALUE, and --tokenizer-option KEY=VALUE.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/node.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

// The option whose values the assignments are. Messages name it.
struct AssignmentOption {
  std::string_view name = "--set";
  std::string_view section = {};  // "": a value is SECTION.KEY=VALUE; else KEY=VALUE for it
  std::string_view example = "train.train_iters=100";
};

// Applies the assignments in order. VALUE is a TOML value; a text that is none is a string. A
// [[section]] is addressed as SECTION.PLUGIN.KEY: the table with that `plugin`, which is added when
// there is none. All malformed assignments are reported together.
Status apply_overrides(Node& root, std::span<const std::string> assignments,
                       const AssignmentOption& option = {});

}  // namespace megatron::config
