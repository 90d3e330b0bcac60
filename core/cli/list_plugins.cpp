// `list-plugins`: what the search path offers and what is wrong with the rest. Runs no foreign
// code.
#include "cli/list_plugins.hpp"

#include <algorithm>
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

using plugin::PluginRow;

constexpr std::string_view kIndent = "    ";

struct ListOptions {
  std::string kind;
  bool json = false;
};

// "-" where a file has no note to tell.
TableRow cells(const PluginRow& row) {
  const auto or_dash = [](const std::string& s) { return s.empty() ? "-" : s; };
  const auto& note = row.note;
  return {or_dash(row.kind),
          or_dash(row.name),
          note ? or_dash(note->version) : "-",
          note ? plugin::abi_text(note->abi_major, note->abi_minor) : "-",
          note ? plugin::tier_name(note->tier) : "-",
          std::string(plugin::state_name(row.state)),
          row.path};
}

Status list_plugins(const ListOptions& options, const Context& context) {
  if (!options.kind.empty() && !plugin::parse_kind(options.kind).has_value()) {
    const auto near = near_names(options.kind, plugin::kind_names());
    return invalid_argument(
        text("unknown plugin kind '", options.kind, "'"),
        text("kinds: ", list_names(plugin::kind_names(), "")),
        near.empty() ? "name one of them" : text("did you mean ", list_names(near), "?"));
  }
  MGT_ASSIGN_OR_RETURN(const plugin::Registry registry, open_registry(context, serial_services()));
  std::vector<PluginRow> rows = registry.rows();
  if (!options.kind.empty())
    std::erase_if(rows, [&](const PluginRow& row) { return row.kind != options.kind; });

  if (options.json) {
    std::cout << plugin_json(rows, registry.search_path());
  } else if (rows.empty()) {
    std::cout << text(
        "no ", options.kind, options.kind.empty() ? "" : " ",
        "plugins; searched, in this order: ", plugin::describe(registry.search_path()), "\n");
  } else {
    std::cout << plugin_table(rows, output_width());
  }
  return {};
}

}  // namespace

std::string plugin_table(const std::vector<PluginRow>& rows, size_t width) {
  std::vector<TableRow> table{{"KIND", "NAME", "VERSION", "ABI", "TIER", "STATE", "PATH"}};
  for (const PluginRow& row : rows) table.push_back(cells(row));
  std::vector<std::string> lines = aligned_lines(table);
  const bool fits = std::all_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return display_width(line) <= width;
  });
  if (!fits) {
    for (TableRow& row : table) row.pop_back();
    lines = aligned_lines(table);
  }
  std::string out = lines[0] + "\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    out += lines[i + 1] + "\n";
    if (!fits) out += text(kIndent, printable(rows[i].path), "\n");
    if (!rows[i].reason.empty()) out += text(kIndent, printable(rows[i].reason), "\n");
  }
  return out;
}

std::string plugin_json(const std::vector<PluginRow>& rows, const plugin::SearchPath& search) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
  Json plugins = Json::array(), searched = Json::array();
  for (const PluginRow& row : rows) {
    const auto& note = row.note;
    plugins.push_back(
        {{"kind", or_null(row.kind)},
         {"name", or_null(row.name)},
         {"version", note ? Json(note->version) : Json()},
         {"abi", note ? Json(plugin::abi_text(note->abi_major, note->abi_minor)) : Json()},
         {"tier", note ? Json(plugin::tier_name(note->tier)) : Json()},
         {"state", plugin::state_name(row.state)},
         {"reason", or_null(row.reason)},
         {"path", row.path},
         {"sdk_version", note ? Json(note->sdk_version) : Json()},
         {"compiler", note ? Json(note->compiler) : Json()}});
  }
  for (const auto& folder : search.folders)
    searched.push_back({{"path", folder.path}, {"origin", folder.origin}});
  // A path need not be UTF-8; JSON must be.
  return Json{{"plugins", plugins}, {"searched", searched}}.dump(2, ' ', false,
                                                                 Json::error_handler_t::replace) +
         "\n";
}

void add_list_plugins(CLI::App& app, Context& context) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* command = app.add_subcommand("list-plugins", "List the plugins that can be found");
  command->add_option("--kind", options->kind, "Only this kind: model, optimizer, …")
      ->type_name("KIND");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, &context] {
    context.action = [options, &context] { return list_plugins(*options, context); };
  });
}

}  // namespace megatron::cli
