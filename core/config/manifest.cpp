#include "config/manifest.hpp"

#include <utility>

#include "base/file.hpp"
#include "config/fit.hpp"
#include "config/include.hpp"

namespace megatron::config {

Result<Manifest> Manifest::load(const std::string& path, std::span<const std::string> overrides) {
  MGT_ASSIGN_OR_RETURN(Loaded loaded, load_with_includes(path));
  Manifest manifest;
  manifest.root_ = std::move(loaded.root);
  manifest.files_ = std::move(loaded.files);
  const std::string absolute = absolute_path(path);
  manifest.folder_ = absolute.substr(0, std::max<size_t>(absolute.rfind('/'), 1));
  MGT_RETURN_IF_ERROR(apply_overrides(manifest.root_, overrides));
  return manifest;
}

Result<Manifest> Manifest::of_command_line(const CommandLineSection& section) {
  const Origin origin = Origin::of_command_line(text(section.plugin_option, " ", section.plugin));
  Node table = Node::of_table(origin);
  assign(table, "plugin", Node::of_scalar(Node::Kind::string, section.plugin, origin));
  Manifest manifest;
  assign(manifest.root_, section.name, std::move(table));
  manifest.files_ = {"the command line"};
  manifest.folder_ = absolute_path(".");
  manifest.key_option_ = section.key_option.name;
  MGT_RETURN_IF_ERROR(apply_overrides(manifest.root_, section.assignments, section.key_option));
  const Node& plugin = manifest.root_.find(section.name)->value.find("plugin")->value;
  if (plugin.origin.note != origin.note) {
    return invalid_argument(
        text(location(plugin.origin), ": the plugin is named twice"),
        text(section.plugin_option, " ", section.plugin, " names it"),
        text("leave this option out, or give its value to ", section.plugin_option));
  }
  return manifest;
}

std::vector<NamedPlugin> named_plugins(const Manifest& manifest,
                                       std::span<const SectionSchema> sections) {
  std::vector<NamedPlugin> plugins;
  for (const SectionSchema& section : sections) {
    const OptionSpec* option = section.keys.find("plugin");
    if (option == nullptr) continue;
    const auto add = [&](size_t index, const Node* table) {
      const Member* member = table == nullptr ? nullptr : table->find("plugin");
      Value name = option->default_value;
      if (member != nullptr && fit(member->value, *option, name)) return;
      const auto* s = std::get_if<std::string>(&name);
      if (s == nullptr || s->empty()) return;
      plugins.push_back(
          {section.name, index, *s, member == nullptr ? Origin() : member->value.origin});
    };
    const Member* member = manifest.root().find(section.name);
    if (member == nullptr) {
      if (section.presence == Presence::always) add(0, nullptr);
    } else if (section.presence == Presence::repeated) {
      const auto& items = member->value.items;
      for (size_t i = 0; i < items.size(); ++i) add(i, &items[i]);
    } else if (member->value.kind == Node::Kind::table) {
      add(0, &member->value);
    }
  }
  return plugins;
}

}  // namespace megatron::config
