#include "config/changes.hpp"

#include "config/fit.hpp"

namespace megatron::config {

std::vector<std::string> changes(
    const Manifest& before, const Resolved& now,
    const std::function<bool(const std::string& section, const std::string& key)>& matters) {
  std::vector<std::string> out;
  for (const Section& section : now.all()) {
    const Member* old_section = before.root().find(section.name());
    if (section.repeated() || old_section == nullptr) continue;
    for (const auto& entry : section.entries()) {
      const Member* old = old_section->value.find(entry.option.key);
      if (old == nullptr || !is_set(entry.value) || !matters(section.name(), entry.option.key))
        continue;
      Value value;
      const bool fits = !fit(old->value, entry.option, value);
      if (fits && value == entry.value) continue;
      out.push_back(text(section.name(), ".", entry.option.key, " = ", to_toml(entry.value),
                         ", was ", fits ? to_toml(value) : excerpt(old->value)));
    }
  }
  return out;
}

}  // namespace megatron::config
