// `describe-plugin`: what one plugin is and which options its section of the manifest takes. Loads
// that plugin and no other.
#include "cli/describe_plugin.hpp"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "base/suggest.hpp"
#include "cli/command.hpp"
#include "cli/text_table.hpp"
#include "plugin/kind.hpp"

namespace megatron::cli {
namespace {

constexpr std::string_view kNoOptions = "It has no options.\n";

struct DescribeOptions {
  std::string plugin;  // NAME or KIND/NAME
  bool json = false;
  bool markdown = false;
};

// "integer", "list of floats"
std::string short_type(const config::OptionSpec& option) {
  std::string_view name = config::type_name(option.type);
  for (const std::string_view article : {"an ", "a "})
    if (name.starts_with(article)) name.remove_prefix(article.size());
  return std::string(name);
}

std::string default_text(const config::OptionSpec& option) {
  return option.required ? "required" : config::to_toml(option.default_value);
}

std::string allowed_text(const config::OptionSpec& option) {
  return option.choices.empty() ? config::range_text(option) : list_names(option.choices, "");
}

std::vector<TableRow> option_rows(const config::Schema& schema) {
  std::vector<TableRow> rows;
  for (const auto& o : schema.options())
    rows.push_back({o.key, short_type(o), default_text(o), allowed_text(o), o.doc});
  return rows;
}

// The row that NAME or KIND/NAME means. A name that several kinds have must say which.
Result<const plugin::PluginRow*> find_row(const plugin::Registry& registry,
                                          const std::string& wanted) {
  const size_t slash = wanted.find('/');
  const std::string kind = slash == std::string::npos ? "" : wanted.substr(0, slash);
  const std::string name = slash == std::string::npos ? wanted : wanted.substr(slash + 1);
  if (!kind.empty() && !plugin::parse_kind(kind).has_value()) {
    const auto near = near_names(kind, plugin::kind_names());
    return invalid_argument(
        text("unknown plugin kind '", kind, "' in '", wanted, "'"),
        text("kinds: ", list_names(plugin::kind_names(), "")),
        near.empty() ? "write NAME or KIND/NAME" : text("did you mean ", list_names(near), "?"));
  }
  std::vector<const plugin::PluginRow*> found;
  for (const auto& row : registry.rows()) {
    if (row.state != plugin::State::shadowed && row.name == name &&
        (kind.empty() || row.kind == kind))
      found.push_back(&row);
  }
  if (found.empty()) return registry.not_found(kind, name);
  if (found.size() == 1) return found.front();
  std::vector<std::string> names;
  for (const auto* row : found) names.push_back(text(row->kind, "/", row->name));
  return invalid_argument(text("'", name, "' is the name of ", found.size(), " plugins"),
                          text("they are: ", list_names(names, "")),
                          text("write ", names.front(), " or another of them"));
}

Result<Described> describe(plugin::Registry& registry, const std::string& wanted) {
  MGT_ASSIGN_OR_RETURN(const plugin::PluginRow* const row, find_row(registry, wanted));
  const auto kind = plugin::parse_kind(row->kind);
  if (!kind.has_value()) return row->problem;  // a kind of a younger host: refused
  MGT_ASSIGN_OR_RETURN(const plugin::LoadedPlugin loaded, registry.load(*kind, row->name));
  auto schema = config::Schema::from_abi(loaded.name(), loaded.options(), loaded.option_count());
  if (!schema.ok()) return Status(plugin::kUnusable, std::string(schema.status().message()));
  return Described{loaded, *row->note, std::move(schema).value()};
}

Status describe_plugin(const DescribeOptions& options, const Context& context) {
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, serial_services()));
  MGT_ASSIGN_OR_RETURN(const Described described, describe(registry, options.plugin));
  if (options.json) {
    std::cout << description_json(described);
  } else if (options.markdown) {
    std::cout << options_markdown(described.schema);
  } else {
    std::cout << description_text(described);
  }
  return {};
}

}  // namespace

std::string description_text(const Described& described) {
  const auto& [plugin, note, schema] = described;
  std::string out =
      text(plugin::kind_name(plugin.kind()), "/", plugin.name(), " ", printable(plugin.version()),
           " (ABI ", plugin::abi_text(note.abi_major, note.abi_minor), ", ",
           plugin::tier_name(note.tier), " tier, sdk ", note.sdk_version, ", ", note.compiler,
           ")\n", printable(plugin.description()), "\n", printable(plugin.path()), "\n\n");
  if (schema.options().empty()) return out.append(kNoOptions);
  auto rows = option_rows(schema);
  rows.insert(rows.begin(), {"OPTION", "TYPE", "DEFAULT", "ALLOWED", "MEANING"});
  for (const std::string& line : aligned_lines(rows)) out += line + "\n";
  return out;
}

std::string description_json(const Described& described) {
  using Json = nlohmann::ordered_json;
  const auto& [plugin, note, schema] = described;
  Json options = Json::array();
  for (const auto& o : schema.options()) {
    options.push_back({{"key", o.key},
                       {"type", short_type(o)},
                       {"required", o.required},
                       {"default", o.required ? Json() : Json(config::to_toml(o.default_value))},
                       {"min", o.min ? Json(*o.min) : Json()},
                       {"min_exclusive", o.min_exclusive},
                       {"max", o.max ? Json(*o.max) : Json()},
                       {"max_exclusive", o.max_exclusive},
                       {"choices", o.choices},
                       {"doc", o.doc}});
  }
  const Json json{{"kind", plugin::kind_name(plugin.kind())},
                  {"name", plugin.name()},
                  {"version", plugin.version()},
                  {"abi", plugin::abi_text(note.abi_major, note.abi_minor)},
                  {"tier", plugin::tier_name(note.tier)},
                  {"sdk_version", note.sdk_version},
                  {"compiler", note.compiler},
                  {"path", plugin.path()},
                  {"description", plugin.description()},
                  {"options", options}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string options_markdown(const config::Schema& schema) {
  if (schema.options().empty()) return std::string(kNoOptions);
  std::vector<TableRow> rows{{"option", "type", "default", "allowed", "meaning"}};
  for (TableRow& row : option_rows(schema)) {
    for (const size_t code : {0, 2})
      if (!row[code].empty() && row[code] != "required") row[code] = text("`", row[code], "`");
    rows.push_back(std::move(row));
  }
  return markdown_table(rows);
}

void add_describe_plugin(CLI::App& app, Context& context) {
  auto options = std::make_shared<DescribeOptions>();
  CLI::App* command =
      app.add_subcommand("describe-plugin", "Show what a plugin does and its options");
  command->add_option("NAME", options->plugin, "The plugin; KIND/NAME where several kinds have it")
      ->required()
      ->type_name("");
  auto* json = command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--markdown", options->markdown, "Print the options as a Markdown table")
      ->excludes(json);
  command->callback([options, &context] {
    context.action = [options, &context] { return describe_plugin(*options, context); };
  });
}

}  // namespace megatron::cli
