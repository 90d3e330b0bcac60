#include "config/overrides.hpp"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "config/problems.hpp"
#include "config/toml.hpp"

namespace megatron::config {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::vector<std::string> split(std::string_view dotted) {
  std::vector<std::string> parts;
  while (true) {
    const auto dot = dotted.find('.');
    parts.emplace_back(trimmed(dotted.substr(0, dot)));
    if (dot == std::string_view::npos) return parts;
    dotted.remove_prefix(dot + 1);
  }
}

// "1e400", "99999999999999999999": numbers that 64 bits do not hold.
bool is_number_out_of_range(std::string_view written) {
  const char* end = written.data() + written.size();
  const auto beyond = [&](auto number) {
    const auto parsed = std::from_chars(written.data(), end, number);
    return parsed.ec == std::errc::result_out_of_range && parsed.ptr == end;
  };
  return beyond(int64_t{}) || beyond(double{});
}

// Nothing when the text opens a list or a quote and is no TOML.
std::optional<Node> value_of(std::string_view written, const Origin& origin) {
  Node as_text = Node::of_scalar(Node::Kind::string, std::string(written), origin);
  auto node = parse_value(written, origin);
  if (!node && written.find_first_of("[\"'") == 0) return std::nullopt;
  // A date or an inline table fits no option; 2024-01-01 as the name of a run does, as a string.
  if (!node || node->kind == Node::Kind::date || node->kind == Node::Kind::table) return as_text;
  if (node->kind != Node::Kind::array && node->kind != Node::Kind::string)
    node->source = std::string(written);
  return node;
}

class Override {
 public:
  Override(Node& root, const std::string& assignment, const AssignmentOption& option)
      : root_(root),
        option_(option),
        origin_(Origin::of_command_line(text(option.name, " ", assignment))),
        assignment_(assignment) {}

  void apply(Problems& problems) {
    if (!is_toml_text(assignment_)) {
      problems.add(origin_, "not UTF-8", "a manifest, and what replaces its values, is UTF-8 text",
                   "check the encoding of the terminal or script that wrote it");
      return;
    }
    const auto equals = assignment_.find('=');
    auto parts = split(std::string_view(assignment_).substr(0, equals));
    const bool any_section = option_.section.empty();
    if (!any_section) parts.emplace(parts.begin(), option_.section);
    bool complete =
        equals != std::string::npos && (parts.size() == 2 || (any_section && parts.size() == 3));
    for (const std::string& part : parts) complete = complete && !part.empty();
    if (!complete) {
      problems.add(origin_, "not an assignment",
                   text(option_.name, " takes ", any_section ? "SECTION." : "", "KEY=VALUE"),
                   text("write for example ", option_.name, " ", option_.example));
      return;
    }
    const auto written = trimmed(std::string_view(assignment_).substr(equals + 1));
    if (is_number_out_of_range(written)) {
      problems.add(origin_, text(written, " does not fit into 64 bits"),
                   "integers lie in -2^63 to 2^63-1, other numbers within ±1.8e308",
                   "write a number within these limits; as text, it needs quotes");
      return;
    }
    const auto value = value_of(written, origin_);
    if (!value) {
      problems.add(
          origin_, text(written, " is not a TOML value"),
          "a list needs brackets, and the strings in it quotes; a shell removes both kinds "
          "of quotes",
          text("protect it from the shell: ", option_.name, " '", assignment_.substr(0, equals),
               written[0] == '[' ? "=[\"a\", \"b\"]'" : "=\"text\"'"));
      return;
    }
    if (parts.size() == 2) return set_in_section(parts, *value, problems);
    set_in_repeated(parts, *value, problems);
  }

 private:
  void set_in_section(const std::vector<std::string>& parts, const Node& value,
                      Problems& problems) {
    Member* section = root_.find(parts[0]);
    if (section == nullptr) {
      assign(root_, parts[0], Node::of_table(origin_));
      section = root_.find(parts[0]);
    }
    if (section->value.is_array_of_tables()) {
      problems.add(origin_, text("[[", parts[0], "]] holds several tables"),
                   text("the first is at ", location(section->origin)),
                   text("name the plugin of one: ", option_.name, " ", parts[0], ".PLUGIN.",
                        assignment_.substr(assignment_.find('.') + 1)));
      return;
    }
    if (section->value.kind == Node::Kind::table) assign(section->value, parts[1], value);
    // Anything else is reported as "not a section" with its own place.
  }

  void set_in_repeated(const std::vector<std::string>& parts, const Node& value,
                       Problems& problems) {
    Member* section = root_.find(parts[0]);
    if (section == nullptr) {
      assign(root_, parts[0], Node::of_scalar(Node::Kind::array, {}, origin_));
      section = root_.find(parts[0]);
    }
    Node& tables = section->value;
    if (!tables.is_array_of_tables() &&
        !(tables.kind == Node::Kind::array && tables.items.empty())) {
      problems.add(origin_, text("[", parts[0], "] is a single section"),
                   text("it is at ", location(section->origin)),
                   text("write ", option_.name, " ", parts[0], ".", parts[2], "=..."));
      return;
    }
    std::vector<Node*> matching;
    for (Node& table : tables.items) {
      const Member* plugin = table.find("plugin");
      if (plugin != nullptr && plugin->value.scalar == Value(parts[1])) matching.push_back(&table);
    }
    if (matching.size() > 1) {
      problems.add(
          origin_,
          text("[[", parts[0], "]] has ", matching.size(),
               " tables with plugin = ", to_toml_string(parts[1])),
          text("at ", location(matching[0]->origin), " and ", location(matching[1]->origin)),
          "set the value in the manifest");
      return;
    }
    if (matching.empty()) {
      tables.items.push_back(Node::of_table(origin_));
      matching.push_back(&tables.items.back());
      assign(*matching[0], "plugin", Node::of_scalar(Node::Kind::string, parts[1], origin_));
    }
    assign(*matching[0], parts[2], value);
  }

  Node& root_;
  const AssignmentOption& option_;
  Origin origin_;
  const std::string& assignment_;
};

}  // namespace

Status apply_overrides(Node& root, std::span<const std::string> assignments,
                       const AssignmentOption& option) {
  Problems problems;
  for (const std::string& assignment : assignments)
    Override(root, assignment, option).apply(problems);
  return problems.status();
}

}  // namespace megatron::config
