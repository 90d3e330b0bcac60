// The value of an option and its type. Values print as TOML that reads back to the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "megatron/abi/host.h"

namespace megatron::config {

enum class Type : uint32_t {
  boolean = MGT_OPTION_BOOL,
  integer = MGT_OPTION_INT,
  floating = MGT_OPTION_FLOAT,
  string = MGT_OPTION_STRING,
  path = MGT_OPTION_PATH,
  integers = MGT_OPTION_INT_LIST,
  floats = MGT_OPTION_FLOAT_LIST,
  strings = MGT_OPTION_STRING_LIST,
  paths = MGT_OPTION_PATH_LIST,
};

// monostate: not set, and no default. Paths are strings.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                           std::vector<double>, std::vector<std::string>>;

bool is_known(Type type);
bool is_list(Type type);
Type element_type(Type list);               // the type itself when it is no list
std::string_view type_name(Type type);      // "an integer", "a list of floats"
bool holds(const Value& value, Type type);  // monostate holds none
inline bool is_set(const Value& value) { return value.index() != 0; }

std::string to_toml(const Value& value);         // "" for a value that is not set
std::string to_toml_string(std::string_view s);  // in quotes, escaped

}  // namespace megatron::config
