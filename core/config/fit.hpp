// Does a written value fit an option? Conversion with the three lines that explain a misfit.
#pragma once

#include <optional>
#include <string>

#include "config/node.hpp"
#include "config/schema.hpp"

namespace megatron::config {

struct Misfit {
  std::string fact;  // continues "train.steps = 1.5 "
  std::string cause;
  std::string action;
  std::optional<Origin> place = {};  // of the entry, for a list over several lines
};

// Sets `value` when the node fits in type, range and choices. Integers fit floats; what --set gives
// unquoted fits a string. Paths are left as written.
std::optional<Misfit> fit(const Node& node, const OptionSpec& option, Value& value);

}  // namespace megatron::config
