#include "config/abi_config.hpp"

#include <algorithm>
#include <cstring>

#include "base/suggest.hpp"

namespace megatron::config {

AbiConfig::AbiConfig(const Section& section) : section_(section) {
  for (const Section::Entry& entry : section.entries()) {
    auto& list = strings_.emplace_back();
    if (const auto* strings = std::get_if<std::vector<std::string>>(&entry.value))
      for (const std::string& s : *strings) list.push_back(to_abi(s));
  }
  MGT_INIT(&table_);
  table_.context = this;
  table_.get = [](const void* context, mgt_str key, mgt_config_value* out) {
    return guarded([&]() -> Status {
      mgt_config_value value;
      MGT_INIT(&value);
      MGT_RETURN_IF_ERROR(static_cast<const AbiConfig*>(context)->get(from_abi(key), value));
      // A plugin of an older sdk knows a shorter struct.
      value.struct_size = out->struct_size;
      std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof value));
      return {};
    });
  };
}

Status AbiConfig::get(std::string_view key, mgt_config_value& out) const {
  const Section::Entry* entry = section_.find(key);
  if (entry == nullptr || !entry->of_plugin) {
    std::vector<std::string> keys;
    for (const Section::Entry& e : section_.entries())
      if (e.of_plugin) keys.push_back(e.option.key);
    return Status::error(
        Code::not_found, text("plugin '", section_.plugin(), "' asks for its option '", key, "'"),
        text("it does not declare this option; it declares ", list_names(keys)),
        "add the option to the plugin's MEGATRON_PLUGIN(...), or correct the name");
  }
  section_.read(key);
  const Value& value = entry->value;
  out.type = static_cast<mgt_option_type>(entry->option.type);
  if (const auto* b = std::get_if<bool>(&value)) out.i = *b ? 1 : 0;
  if (const auto* i = std::get_if<int64_t>(&value)) out.i = *i;
  if (const auto* f = std::get_if<double>(&value)) out.f = *f;
  if (const auto* s = std::get_if<std::string>(&value)) out.s = to_abi(*s);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    out.ints = ints->data();
    out.count = ints->size();
  }
  if (const auto* floats = std::get_if<std::vector<double>>(&value)) {
    out.floats = floats->data();
    out.count = floats->size();
  }
  if (std::holds_alternative<std::vector<std::string>>(value)) {
    const auto& list = strings_[static_cast<size_t>(entry - section_.entries().data())];
    out.strings = list.data();
    out.count = list.size();
  }
  return {};
}

}  // namespace megatron::config
