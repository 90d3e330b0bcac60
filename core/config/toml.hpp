// The only door to toml++: text to Node.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "config/node.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

// A syntax error says file:line:column, what is wrong, and shows the line.
Result<Node> parse_toml(std::string_view source, std::shared_ptr<const SourceFile> file);

// One TOML value ("0.1", "[1, 2]"), all parts with `origin`; nothing when the text is none.
std::optional<Node> parse_value(std::string_view source, const Origin& origin);

// Whether the text could stand in a TOML file: valid UTF-8.
bool is_toml_text(std::string_view text);

}  // namespace megatron::config
