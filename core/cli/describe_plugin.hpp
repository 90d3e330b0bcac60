// The three outputs of `describe-plugin`.
#pragma once

#include <string>

#include "config/schema.hpp"
#include "plugin/loaded_plugin.hpp"
#include "plugin/scan.hpp"

namespace megatron::cli {

struct Described {
  plugin::LoadedPlugin plugin;
  mgt_note_desc note;
  config::Schema schema;
};

std::string description_text(const Described& described);
std::string description_json(const Described& described);
// The options table of the plugin's README.md.
std::string options_markdown(const config::Schema& schema);

}  // namespace megatron::cli
