#include "config/schema.hpp"

#include <algorithm>

#include "base/suggest.hpp"
#include "config/fit.hpp"
#include "config/toml.hpp"

namespace megatron::config {
namespace {

constexpr uint32_t kRangeFlags =
    MGT_OPTION_HAS_MIN | MGT_OPTION_HAS_MAX | MGT_OPTION_MIN_EXCLUSIVE | MGT_OPTION_MAX_EXCLUSIVE;
constexpr uint32_t kKnownFlags = kRangeFlags | MGT_OPTION_REQUIRED;

bool is_numeric(Type type) {
  const Type element = element_type(type);
  return element == Type::integer || element == Type::floating;
}
bool is_textual(Type type) { return element_type(type) == Type::string; }

bool is_key(std::string_view key) {
  if (key.empty() || key[0] < 'a' || key[0] > 'z') return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

OptionSpec copy(const mgt_option& option) {
  OptionSpec spec{.key = std::string(from_abi(option.key)),
                  .type = static_cast<Type>(option.type),
                  .required = (option.flags & MGT_OPTION_REQUIRED) != 0,
                  .min_exclusive = (option.flags & MGT_OPTION_MIN_EXCLUSIVE) != 0,
                  .max_exclusive = (option.flags & MGT_OPTION_MAX_EXCLUSIVE) != 0,
                  .doc = std::string(from_abi(option.doc))};
  if ((option.flags & MGT_OPTION_HAS_MIN) != 0) spec.min = option.min;
  if ((option.flags & MGT_OPTION_HAS_MAX) != 0) spec.max = option.max;
  for (uint32_t i = 0; i < option.choice_count; ++i)
    spec.choices.emplace_back(from_abi(option.choices[i]));
  return spec;
}

// An option without default and not required: text and lists read as empty. A number would read as
// 0 on the plugin's side, which has no way to ask; only the host may declare one.
void set_empty_default(OptionSpec& spec) {
  if (is_list(spec.type)) {
    if (element_type(spec.type) == Type::integer) spec.default_value = std::vector<int64_t>();
    if (element_type(spec.type) == Type::floating) spec.default_value = std::vector<double>();
    if (!is_numeric(spec.type)) spec.default_value = std::vector<std::string>();
  } else if (spec.type == Type::string || spec.type == Type::path) {
    spec.default_value = std::string();
  }
}

// What is wrong with the declaration, or "".
std::string set_default(OptionSpec& spec, std::string_view written, bool of_plugin) {
  if (written.empty()) {
    if (spec.required) return {};
    if (of_plugin) set_empty_default(spec);
    if (of_plugin && !is_set(spec.default_value))
      return text("it has no default, is not required, and ", type_name(spec.type),
                  " has no empty value");
    return {};
  }
  if (spec.required) return "it is required and has a default";
  const auto node = parse_value(written, {});
  if (!node.has_value()) return text("its default ", written, " is not a TOML value");
  if (const auto misfit = fit(*node, spec, spec.default_value))
    return text("its default ", written, " ", misfit->fact, ": ", misfit->cause);
  return {};
}

std::string defect(const mgt_option& option, OptionSpec& spec, bool of_plugin) {
  if (!is_key(spec.key)) return "a key is lower-case letters, digits and '_'";
  if (!is_known(spec.type)) return text("its type ", option.type, " is none that this host knows");
  if ((option.flags & ~kKnownFlags) != 0)
    return text("it has flags that this host does not know: ", option.flags & ~kKnownFlags);
  if ((option.flags & kRangeFlags) != 0 && !is_numeric(spec.type))
    return text("it has a range and is ", type_name(spec.type));
  if (!spec.choices.empty() && !is_textual(spec.type))
    return text("it has choices and is ", type_name(spec.type));
  if (spec.min && spec.max && *spec.min > *spec.max) return "its range is empty";
  return set_default(spec, from_abi(option.default_value), of_plugin);
}

Status bad_declaration(std::string_view owner, std::string_view key, std::string_view cause) {
  return Status::error(Code::failed_precondition,
                       text("plugin '", owner, "' declares its option '", key, "' wrongly"), cause,
                       "correct the option in the plugin's MEGATRON_PLUGIN(...) and rebuild it");
}

}  // namespace

std::string range_text(const OptionSpec& option) {
  const bool integers = element_type(option.type) == Type::integer;
  const auto number = [&](double v) {  // 10000000000, not 1e+10
    return integers && v > -9e18 && v < 9e18 ? text(static_cast<int64_t>(v)) : text(v);
  };
  std::string out;
  if (option.min) out = text(option.min_exclusive ? "above " : "at least ", number(*option.min));
  if (option.min && option.max) out += " and ";
  if (option.max) out += text(option.max_exclusive ? "below " : "at most ", number(*option.max));
  return out;
}

Result<Schema> Schema::from_abi(std::string_view owner, const mgt_option* options, uint64_t count) {
  Schema schema;
  schema.owner_ = owner;
  std::string all;
  const auto complain = [&](std::string_view key, std::string_view cause) {
    const Status status = bad_declaration(owner, key, cause);
    all += text(all.empty() ? "" : "\n", status.message());
  };
  // A plugin built against a later sdk has longer options: the first one tells the stride.
  const auto* at = reinterpret_cast<const std::byte*>(options);
  for (uint64_t i = 0; i < count; ++i) {
    const auto& option = *reinterpret_cast<const mgt_option*>(at);
    if (option.struct_size < sizeof(mgt_option)) {
      complain(text("#", i), text("its struct_size is ", option.struct_size,
                                  ", and the smallest is ", sizeof(mgt_option)));
      break;  // where the next one starts is not known
    }
    at += option.struct_size;
    OptionSpec spec = copy(option);
    const std::string cause = schema.find(spec.key) != nullptr
                                  ? "another option has the same key"
                                  : defect(option, spec, /*of_plugin=*/!owner.empty());
    if (!cause.empty()) complain(spec.key, cause);
    schema.options_.push_back(std::move(spec));
  }
  if (!all.empty()) return Status(Code::failed_precondition, all);
  return schema;
}

Schema Schema::of(std::initializer_list<Option> options) {
  auto schema = from_abi("", options.begin(), options.size());
  MGT_CHECK(schema.ok(), schema.status().message());
  return std::move(schema).value();
}

const OptionSpec* Schema::find(std::string_view key) const {
  const auto it = std::find_if(options_.begin(), options_.end(),
                               [&](const OptionSpec& option) { return option.key == key; });
  return it == options_.end() ? nullptr : &*it;
}

std::vector<std::string> Schema::keys() const {
  std::vector<std::string> keys;
  for (const OptionSpec& option : options_) keys.push_back(option.key);
  return keys;
}

}  // namespace megatron::config
