// --print-config: what the run will use, and why.
#include <algorithm>

#include "base/printable.hpp"
#include "config/resolve.hpp"

namespace megatron::config {
namespace {

// A longer value pushes its own comment only, not those of the whole section.
constexpr size_t kWidestColumn = 40;

std::string padded(std::string s, size_t width) {
  if (s.size() < width) s.append(width - s.size(), ' ');
  return s;
}

void print(const Section& section, std::string& out) {
  struct Line {
    std::string key, value, comment;
  };
  std::vector<Line> lines;
  size_t key_width = 0, value_width = 0;
  for (const Section::Entry& entry : section.entries()) {
    const bool set = is_set(entry.value);
    // TOML has no "not set": such a line is a comment as a whole.
    Line line{set ? entry.option.key : text("# ", entry.option.key),
              set ? to_toml(entry.value) : "",
              set ? printable(provenance(entry.origin)) : "not set"};
    key_width = std::max(key_width, line.key.size());
    value_width = std::max(value_width, std::min(line.value.size(), kWidestColumn));
    lines.push_back(std::move(line));
  }
  const std::string name =
      section.repeated() ? text("[[", section.name(), "]]") : text("[", section.name(), "]");
  out += text(name, "  # ", printable(provenance(section.origin())), "\n");
  for (const Line& line : lines) {
    out += text(padded(line.key, key_width), " = ", padded(line.value, value_width), "  # ",
                line.comment, "\n");
  }
}

}  // namespace

std::string print_config(const Resolved& resolved) {
  std::string out;
  for (const Section& section : resolved.all()) {
    if (!out.empty()) out += "\n";
    print(section, out);
  }
  return out;
}

}  // namespace megatron::config
