#include "config/resolve.hpp"

#include <algorithm>
#include <utility>

#include "base/file.hpp"
#include "base/suggest.hpp"
#include "config/fit.hpp"
#include "config/problems.hpp"
#include "config/toml.hpp"

namespace megatron::config {
namespace {

std::string header(const SectionSchema& section) {
  return section.presence == Presence::repeated ? text("[[", section.name, "]]")
                                                : text("[", section.name, "]");
}

class Resolver {
 public:
  Resolver(const Manifest& manifest, std::span<const SectionSchema> sections)
      : manifest_(manifest), sections_(sections) {}

  Result<Resolved> run() {
    for (const Member& member : manifest_.root().members)
      if (schema_of(member.key) == nullptr) unknown_section(member);
    for (const SectionSchema& section : sections_) resolve_section(section);
    MGT_RETURN_IF_ERROR(problems_.status());
    return std::move(resolved_);
  }

 private:
  const SectionSchema* schema_of(std::string_view name) const {
    for (const SectionSchema& section : sections_)
      if (section.name == name) return &section;
    return nullptr;
  }

  // "also a key of [optimizer]": the reader put it into the wrong section.
  const SectionSchema* section_with_key(std::string_view key) const {
    for (const SectionSchema& section : sections_) {
      if (section.keys.find(key) != nullptr && key != "plugin") return &section;
      for (const Schema& plugin : section.plugins)
        if (plugin.find(key) != nullptr) return &section;
    }
    return nullptr;
  }

  void unknown_section(const Member& member) {
    std::vector<std::string> names;
    for (const SectionSchema& section : sections_) names.push_back(section.name);
    const bool is_section =
        member.value.kind == Node::Kind::table || member.value.is_array_of_tables();
    const SectionSchema* home = section_with_key(member.key);
    if (!is_section && home != nullptr) {
      problems_.add(member.origin, text("key '", member.key, "' stands outside of every section"),
                    text("it belongs to ", header(*home)),
                    text("move it below the line ", header(*home)));
      return;
    }
    const auto near = nearest_name(member.key, names);
    problems_.add(member.origin,
                  is_section ? text("unknown section '", member.key, "'")
                             : text("unknown key '", member.key, "' outside of every section"),
                  text("sections: ", list_names(names, "")),
                  near ? text("write ", header(*schema_of(*near))) : "remove it");
  }

  void resolve_section(const SectionSchema& section) {
    const Member* member = manifest_.root().find(section.name);
    if (member == nullptr) {
      if (section.presence == Presence::always) resolve_absent(section);
      return;
    }
    const Node& node = member->value;
    if (section.presence == Presence::repeated) {
      const bool empty_list = node.kind == Node::Kind::array && node.items.empty();
      if (!node.is_array_of_tables() && !empty_list) return wrong_shape(section, *member);
      for (const Node& table : node.items) resolve_table(section, table);
    } else {
      if (node.kind != Node::Kind::table) return wrong_shape(section, *member);
      resolve_table(section, node);
    }
  }

  void wrong_shape(const SectionSchema& section, const Member& member) {
    const bool repeated = section.presence == Presence::repeated;
    problems_.add(member.origin, text("'", section.name, "' is not written as ", header(section)),
                  text("it is ", kind_name(member.value), ", and must be ",
                       repeated ? "an array of tables" : "a single table"),
                  repeated ? text("write ", header(section), " above each of its tables")
                           : text("write ", header(section), " once, and its keys below"));
  }

  void resolve_absent(const SectionSchema& section) {
    std::vector<std::string> missing;
    for (const OptionSpec& option : section.keys.options())
      if (option.required) missing.push_back(option.key);
    if (missing.empty()) return resolve_table(section, Node());
    problems_.add(whole_manifest(), text("section ", header(section), " is missing"),
                  text("its required keys: ", list_names(missing)),
                  text("add ", header(section), " with these keys"));
  }

  // The place of what is not written anywhere.
  Origin whole_manifest() const {
    return Origin::of_file(std::make_shared<const SourceFile>(
                               SourceFile{manifest_.files().front(), manifest_.folder()}),
                           0, 0);
  }

  void resolve_table(const SectionSchema& section, const Node& table) {
    const Schema* plugin = nullptr;
    suggested_.clear();
    const bool has_plugin = !section.takes_plugin() || find_plugin(section, table, &plugin);
    // Without its plugin a section's keys cannot be told from unknown ones.
    if (has_plugin) {
      if (plugin != nullptr && clashes(section, *plugin)) return;
      for (const Member& member : table.members) {
        if (section.keys.find(member.key) == nullptr &&
            (plugin == nullptr || plugin->find(member.key) == nullptr))
          unknown_key(section, plugin, member);
      }
    }
    Section out(section.name, section.presence == Presence::repeated,
                plugin == nullptr ? "" : plugin->owner(), table.origin);
    add_options(section, section.keys, table, out);
    if (plugin != nullptr) add_options(section, *plugin, table, out);
    resolved_.add(std::move(out));
  }

  // Sets *plugin when the table names one whose schema is there; false after a problem.
  bool find_plugin(const SectionSchema& section, const Node& table, const Schema** plugin) {
    const OptionSpec& option = *section.keys.find("plugin");
    const Member* member = table.find("plugin");
    Value value = option.default_value;
    // Misfits and missing keys are reported with the other options.
    if (member != nullptr && fit(member->value, option, value)) return false;
    const auto* name = std::get_if<std::string>(&value);
    if (name == nullptr) return !option.required;
    std::vector<std::string> names;
    for (const Schema& candidate : section.plugins) {
      if (candidate.owner() == *name) *plugin = &candidate;
      names.push_back(candidate.owner());
    }
    if (*plugin != nullptr) return true;
    const auto near = nearest_name(*name, names);
    problems_.add(
        member == nullptr ? whole_manifest() : member->value.origin,
        text(section.name, ".plugin = ", to_toml_string(*name),
             member == nullptr ? " (the default)" : "", ": no such plugin"),
        text("plugins known for ", header(section), ": ", list_names(names)),
        near ? text("write plugin = ", to_toml_string(*near)) : "see `megatron-host list-plugins`");
    return false;
  }

  // A key of both schemas would have two meanings.
  bool clashes(const SectionSchema& section, const Schema& plugin) {
    bool clash = false;
    for (const OptionSpec& option : plugin.options()) {
      if (section.keys.find(option.key) == nullptr) continue;
      clash = true;
      problems_.add(Status::error(
          Code::failed_precondition,
          text("plugin '", plugin.owner(), "' declares the option '", option.key, "'"),
          text("the host itself reads this key in ", header(section)),
          "rename the option in the plugin's MEGATRON_PLUGIN(...) and rebuild it"));
    }
    return clash;
  }

  void unknown_key(const SectionSchema& section, const Schema* plugin, const Member& member) {
    std::vector<std::string> names = section.keys.keys();
    if (plugin != nullptr)
      for (const std::string& key : plugin->keys()) names.push_back(key);
    const std::string cause = plugin == nullptr
                                  ? text(header(section), " has no such key")
                                  : text("neither ", header(section), " nor its plugin '",
                                         plugin->owner(), "' has such a key");
    const auto near = nearest_name(member.key, names);
    const SectionSchema* home = section_with_key(member.key);
    std::string action = text("remove it; keys: ", list_names(names, ""));
    if (near) action = text("write ", *near);
    if (near) suggested_.push_back(*near);
    // The very key in another section says more than a similar one in this.
    if (home != nullptr && home != &section) action = text("move it to ", header(*home));
    problems_.add(member.origin, text("unknown key '", member.key, "' in ", header(section)), cause,
                  action);
  }

  void add_options(const SectionSchema& section, const Schema& schema, const Node& table,
                   Section& out) {
    for (const OptionSpec& option : schema.options()) {
      Section::Entry entry{
          .option = option, .value = option.default_value, .of_plugin = !schema.owner().empty()};
      if (const Member* member = table.find(option.key)) {
        entry.origin = member->value.origin;
        if (const auto misfit = fit(member->value, option, entry.value)) {
          problems_.add(
              misfit->place.value_or(entry.origin),
              text(section.name, ".", option.key, " = ", excerpt(member->value), " ", misfit->fact),
              misfit->cause, misfit->action);
        }
      } else if (option.required && !suggested(option.key)) {
        missing_key(section, schema, option, table);
      }
      make_absolute(entry);
      out.add(std::move(entry));
    }
  }

  // The same slip seen from the other side: "unknown key 'stpes'" says it.
  bool suggested(const std::string& key) const {
    return std::find(suggested_.begin(), suggested_.end(), key) != suggested_.end();
  }

  void missing_key(const SectionSchema& section, const Schema& schema, const OptionSpec& option,
                   const Node& table) {
    const std::string who = schema.owner().empty()
                                ? header(section)
                                : text("plugin '", schema.owner(), "' of ", header(section));
    const std::string& flag = manifest_.key_option();
    problems_.add(table.origin.by_user() ? table.origin : whole_manifest(),
                  text("key '", option.key, "' is missing in ", header(section)),
                  text(who, " requires it", option.doc.empty() ? "" : ": ", option.doc),
                  text("add ", flag, flag.empty() ? "" : " ", option.key,
                       flag.empty() ? " = " : "=", placeholder(option)));
  }

  static std::string placeholder(const OptionSpec& option) {
    if (!option.choices.empty()) return to_toml_string(option.choices.front());
    const std::string range = range_text(option);
    return text("<", type_name(option.type), range.empty() ? "" : " ", range, ">");
  }

  // Relative to whoever set it: a file's folder, the current directory for --set, the manifest's
  // folder for a default.
  void make_absolute(Section::Entry& entry) {
    if (element_type(entry.option.type) != Type::path) return;
    std::string folder = manifest_.folder();
    if (entry.origin.kind == Origin::Kind::file) folder = entry.origin.file->folder;
    if (entry.origin.kind == Origin::Kind::command_line) folder.clear();
    const auto complete = [&](std::string& path) {
      path = absolute_path(path, folder);
      if (is_toml_text(path)) return;
      problems_.add(entry.origin, text("the path ", path, " is not UTF-8"),
                    "a run writes its paths into its checkpoints' manifests, which are UTF-8",
                    "rename the folder, or work in another one");
    };
    if (auto* path = std::get_if<std::string>(&entry.value)) complete(*path);
    if (auto* paths = std::get_if<std::vector<std::string>>(&entry.value))
      std::for_each(paths->begin(), paths->end(), complete);
  }

  const Manifest& manifest_;
  std::span<const SectionSchema> sections_;
  Problems problems_;
  std::vector<std::string> suggested_;  // in place of unknown keys of the table at hand
  Resolved resolved_;
};

}  // namespace

Result<Resolved> resolve(const Manifest& manifest, std::span<const SectionSchema> sections) {
  return Resolver(manifest, sections).run();
}

const Section* Resolved::find(std::string_view name) const {
  for (const Section& section : sections_)
    if (section.name() == name) return &section;
  return nullptr;
}
Section* Resolved::find(std::string_view name) {
  return const_cast<Section*>(std::as_const(*this).find(name));
}
const Section& Resolved::section(std::string_view name) const {
  const Section* section = find(name);
  MGT_CHECK(section != nullptr, text("the configuration has no [", name, "]"));
  return *section;
}
Section& Resolved::section(std::string_view name) {
  return const_cast<Section&>(std::as_const(*this).section(name));
}
std::vector<const Section*> Resolved::named(std::string_view name) const {
  std::vector<const Section*> out;
  for (const Section& section : sections_)
    if (section.name() == name) out.push_back(&section);
  return out;
}

}  // namespace megatron::config
