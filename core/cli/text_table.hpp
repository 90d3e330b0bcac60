// Columns of text under each other, for terminals and as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace megatron::cli {

using TableRow = std::vector<std::string>;

// Each cell padded to its column's widest, two spaces between columns, none at line ends. All rows
// have as many cells as the first. Control characters are printed escaped.
std::vector<std::string> aligned_lines(std::vector<TableRow> rows);

// The first row is the head. '|' in a cell is escaped.
std::string markdown_table(const std::vector<TableRow>& rows);

// Columns that UTF-8 text takes on a terminal (one a code point).
size_t display_width(std::string_view text);

// Of the terminal behind standard output; no limit (SIZE_MAX) when it is a file or a pipe.
size_t output_width();

}  // namespace megatron::cli
