#include "config/toml.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

namespace megatron::config {
namespace {

using Locate = std::function<Origin(const toml::source_region&)>;

Node date_node(const toml::node& node, Origin origin) {
  std::ostringstream out;
  if (const auto* date = node.as_date()) out << *date;
  if (const auto* time = node.as_time()) out << *time;
  if (const auto* date_time = node.as_date_time()) out << *date_time;
  Node date = Node::of_scalar(Node::Kind::date, {}, std::move(origin));
  date.source = out.str();
  return date;
}

Node to_node(const toml::node& node, const Locate& locate) {
  Origin origin = locate(node.source());
  if (const auto* b = node.as_boolean())
    return Node::of_scalar(Node::Kind::boolean, b->get(), std::move(origin));
  if (const auto* i = node.as_integer())
    return Node::of_scalar(Node::Kind::integer, i->get(), std::move(origin));
  if (const auto* f = node.as_floating_point())
    return Node::of_scalar(Node::Kind::floating, f->get(), std::move(origin));
  if (const auto* s = node.as_string())
    return Node::of_scalar(Node::Kind::string, s->get(), std::move(origin));
  Node out = Node::of_table(std::move(origin));
  if (const auto* array = node.as_array()) {
    out.kind = Node::Kind::array;
    for (const toml::node& item : *array) out.items.push_back(to_node(item, locate));
    return out;
  }
  const auto* table = node.as_table();
  if (table == nullptr) return date_node(node, std::move(out.origin));
  for (const auto& [key, value] : *table)
    out.members.push_back({std::string(key.str()), locate(key.source()), to_node(value, locate)});
  // toml++ sorts by name; messages and the printed configuration follow the file.
  std::stable_sort(out.members.begin(), out.members.end(), [](const Member& a, const Member& b) {
    return std::pair(a.origin.line, a.origin.column) < std::pair(b.origin.line, b.origin.column);
  });
  return out;
}

std::string_view line_of(std::string_view source, uint32_t line) {
  for (; line > 1 && !source.empty(); --line)
    source.remove_prefix(std::min(source.size(), source.find('\n')) +
                         (source.find('\n') != source.npos));
  source = source.substr(0, source.find('\n'));
  if (source.ends_with('\r')) source.remove_suffix(1);
  return source;
}

}  // namespace

Result<Node> parse_toml(std::string_view source, std::shared_ptr<const SourceFile> file) {
  try {
    const toml::table table = toml::parse(source, std::string_view(file->name));
    return to_node(table, [&](const toml::source_region& region) {
      return Origin::of_file(file, region.begin.line, region.begin.column);
    });
  } catch (const toml::parse_error& e) {
    const auto at = e.source().begin;
    std::string cause(e.description());
    std::replace(cause.begin(), cause.end(), '\n', ' ');
    return invalid_argument(text(location(Origin::of_file(file, at.line, at.column)),
                                 ": not valid TOML: ", line_of(source, at.line)),
                            cause, "correct the line (https://toml.io); strings need quotes");
  }
}

std::optional<Node> parse_value(std::string_view source, const Origin& origin) {
  try {
    const toml::table table = toml::parse(text("value = ", source));
    if (table.size() != 1) return std::nullopt;  // the text holds a line break and another key
    return to_node((*table.begin()).second, [&](const toml::source_region&) { return origin; });
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

bool is_toml_text(std::string_view text) {
  return parse_value(to_toml_string(text), {}).has_value();
}

}  // namespace megatron::config
