// What a section may hold: its options with type, default, range and a sentence of documentation.
// Plugins publish theirs as mgt_option arrays; the host's own sections use the same declarations.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.hpp"
#include "megatron/abi/host.h"
#include "megatron/host.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

struct OptionSpec {
  std::string key;
  Type type = Type::string;
  Value default_value = {};  // not set: required, or optional without a default
  bool required = false;
  std::optional<double> min = {}, max = {};  // of a number, or of each number of a list
  bool min_exclusive = false, max_exclusive = false;
  std::vector<std::string> choices = {};  // of a string, or of each string of a list
  std::string doc = {};
};

// "at least 0", "above 0 and at most 1"; "" without a range.
std::string range_text(const OptionSpec& option);

class Schema {
 public:
  Schema() = default;

  // `owner` is the plugin's name. Every defect of the declaration is one of the plugin and is
  // reported as such: key, type, default against range and choices. Copies everything.
  static Result<Schema> from_abi(std::string_view owner, const mgt_option* options, uint64_t count);

  // The host's own keys; a defect is a CHECK failure. Unlike a plugin's, an option of the host that
  // is not required may have no default: Section::has tells.
  //   Schema::of({option("steps", MGT_OPTION_INT, "", "Optimizer steps.").required().at_least(1)})
  static Schema of(std::initializer_list<Option> options);

  const std::string& owner() const { return owner_; }  // "" for the host
  const std::vector<OptionSpec>& options() const { return options_; }
  const OptionSpec* find(std::string_view key) const;
  std::vector<std::string> keys() const;

 private:
  std::string owner_;
  std::vector<OptionSpec> options_;
};

enum class Presence {
  always,    // when the manifest leaves it out, all of it is defaults (or missing keys)
  optional,  // when the manifest leaves it out, there is none
  repeated,  // [[name]], any number of tables
};

// A section of the manifest. It takes a plugin when `keys` has the string option "plugin".
struct SectionSchema {
  std::string name;
  Presence presence = Presence::always;
  Schema keys = {};                  // the host's
  std::vector<Schema> plugins = {};  // of the plugins that the manifest names, by owner
  bool takes_plugin() const { return keys.find("plugin") != nullptr; }
};

}  // namespace megatron::config
