// A manifest file and what it includes, merged.
#pragma once

#include <string>
#include <vector>

#include "config/node.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

struct Loaded {
  Node root;                       // without the key `include`
  std::vector<std::string> files;  // as named in messages, each before those it includes
};

// `include = ["base.toml"]`: paths relative to the including file; a later file wins over an
// earlier one, the including file over its includes. Tables merge key by key; any other value, an
// array of tables too, replaces the earlier one.
Result<Loaded> load_with_includes(const std::string& path);

}  // namespace megatron::config
