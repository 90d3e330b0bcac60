#include "config/section.hpp"

#include <atomic>
#include <utility>

#include "config/fit.hpp"
#include "config/toml.hpp"

namespace megatron::config {

const Section::Entry* Section::find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (entry.option.key == key) return &entry;
  return nullptr;
}

const Section::Entry& Section::read(std::string_view key) const {
  const Entry* entry = find(key);
  MGT_CHECK(entry != nullptr, text("[", name_, "] declares no key '", key, "'"));
  std::atomic_ref(entry->read).store(true, std::memory_order_relaxed);
  return *entry;
}

bool Section::has(std::string_view key) const {
  const Entry* entry = find(key);
  return entry != nullptr && is_set(entry->value);
}

const Origin& Section::origin(std::string_view key) const {
  const Entry* entry = find(key);
  MGT_CHECK(entry != nullptr, text("[", name_, "] declares no key '", key, "'"));
  return entry->origin;
}

std::string Section::describe(std::string_view key) const {
  const Entry& entry = read(key);
  const std::string value = is_set(entry.value) ? to_toml(entry.value) : "(not set)";
  const std::string assignment = text(name_, ".", key, " = ", value);
  if (entry.origin.by_user()) return text(location(entry.origin), ": ", assignment);
  return text(assignment, " (", provenance(entry.origin), ")");
}

std::string Section::unreadable(const Entry& entry) const {
  if (!is_set(entry.value)) return text(name_, ".", entry.option.key, " has no value");
  return text(name_, ".", entry.option.key, " is ", type_name(entry.option.type),
              " and was read as another type");
}

Status Section::derive(std::string_view key, Value value, std::string_view reason) {
  Entry& entry = const_cast<Entry&>(read(key));
  MGT_CHECK(holds(value, entry.option.type), text(name_, ".", key, " derived with a wrong type"));
  const Origin origin = Origin::of_reason(std::string(reason));
  if (entry.origin.by_user()) {
    if (entry.value == value) return {};
    return invalid_argument(describe(key), text("the value ", reason, " is ", to_toml(value)),
                            text("remove the key '", key, "'; it is derived ", reason));
  }
  // By way of its text, so that one function knows ranges and choices.
  const auto node = parse_value(to_toml(value), origin);
  MGT_CHECK(node.has_value());
  Value fitted;
  if (const auto misfit = fit(*node, entry.option, fitted)) {
    return invalid_argument(
        text(name_, ".", key, " = ", to_toml(value), " (derived ", reason, ") ", misfit->fact),
        misfit->cause, text("change what it is derived from"));
  }
  entry.value = std::move(value);
  entry.origin = origin;
  return {};
}

}  // namespace megatron::config
