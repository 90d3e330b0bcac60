#include "cli/text_table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/printable.hpp"

namespace megatron::cli {

std::vector<std::string> aligned_lines(std::vector<TableRow> rows) {
  for (TableRow& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::vector<std::string> lines;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths[i] - display_width(row[i]) + 2, ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string markdown_table(const std::vector<TableRow>& rows) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const std::string& cell : rows[r]) {
      out += "| ";
      for (const char c : printable(cell)) out += c == '|' ? "\\|" : std::string(1, c);
      out += cell.empty() ? "" : " ";
    }
    out += "|\n";
    if (r > 0) continue;
    for (size_t i = 0; i < rows[r].size(); ++i) out += "|---";
    out += "|\n";
  }
  return out;
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

size_t output_width() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return SIZE_MAX;
  return size.ws_col;
}

}  // namespace megatron::cli
