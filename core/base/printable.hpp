// Text from outside (file names, foreign strings) on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace megatron {

// On one line, without a byte that a terminal would obey: control characters become \n, \t, \x1b.
std::string printable(std::string_view text);

// The same for text of several lines: newlines and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace megatron
