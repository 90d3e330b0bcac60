#include "config/changes.hpp"

#include "config/fit.hpp"

namespace megatron::config {

namespace {

std::string described(const Section& section, const Section::Entry& entry, const Node* before) {
  const std::string key = text(section.name(), ".", entry.option.key);
  Value value;
  const bool fits = before != nullptr && !fit(*before, entry.option, value);
  if (before == nullptr)  // what the schema of today adds is no change
    return entry.origin.by_user() ? text(key, " = ", to_toml(entry.value), ", was not set") : "";
  const std::string was = fits ? to_toml(value) : excerpt(*before);
  if (!is_set(entry.value)) return text(key, " is not set, was ", was);
  return fits && value == entry.value ? "" : text(key, " = ", to_toml(entry.value), ", was ", was);
}

}  // namespace

std::vector<std::string> changes(
    const Manifest& before, const Resolved& now,
    const std::function<bool(const std::string& section, const std::string& key)>& matters) {
  std::vector<std::string> out;
  const auto add = [&](std::string change) {
    if (!change.empty()) out.push_back(std::move(change));
  };
  for (const Section& section : now.all()) {
    if (section.repeated()) continue;
    const Member* old_section = before.root().find(section.name());
    for (const auto& entry : section.entries()) {
      if (!matters(section.name(), entry.option.key)) continue;
      const Member* old =
          old_section == nullptr ? nullptr : old_section->value.find(entry.option.key);
      add(described(section, entry, old == nullptr ? nullptr : &old->value));
    }
  }
  for (const Member& old_section : before.root().members) {
    if (old_section.value.kind != Node::Kind::table) continue;
    const Section* section = now.find(old_section.key);
    for (const Member& old : old_section.value.members) {
      const bool known = section != nullptr && section->find(old.key) != nullptr;
      if (!known && matters(old_section.key, old.key))
        add(text(old_section.key, ".", old.key, " is gone, was ", excerpt(old.value)));
    }
  }
  return out;
}

}  // namespace megatron::config
