#include "plugin/kind.hpp"

#include <algorithm>
#include <array>

#include "megatron/status.hpp"

namespace megatron::plugin {
namespace {

constexpr std::string_view kPrefix = "megatron-";
constexpr std::string_view kSuffix = ".so";

const std::array<std::string, MGT_KIND_DEVICE>& names() {
  static const std::array<std::string, MGT_KIND_DEVICE> kNames{
      "model", "parallel", "optimizer", "dataset", "tokenizer", "comm", "device"};
  return kNames;
}

}  // namespace

bool is_known_kind(mgt_kind kind) { return kind >= 1 && kind <= names().size(); }

std::string kind_name(mgt_kind kind) {
  return is_known_kind(kind) ? names()[kind - 1] : text("kind ", kind);
}

std::optional<mgt_kind> parse_kind(std::string_view name) {
  const auto found = std::find(names().begin(), names().end(), name);
  if (found == names().end()) return std::nullopt;
  return static_cast<mgt_kind>(found - names().begin() + 1);
}

std::span<const std::string> kind_names() { return names(); }

std::string tier_name(mgt_tier tier) {
  if (tier == MGT_TIER_STABLE) return "stable";
  if (tier == MGT_TIER_EXACT) return "exact";
  return text("tier ", tier);
}

bool is_plugin_name(std::string_view name) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && lower(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return lower(c) || c == '_' || (c >= '0' && c <= '9');
  });
}

std::optional<PluginFileName> parse_file_name(std::string_view file_name) {
  if (!file_name.starts_with(kPrefix) || !file_name.ends_with(kSuffix)) return std::nullopt;
  if (file_name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  file_name.remove_prefix(kPrefix.size());
  file_name.remove_suffix(kSuffix.size());
  const size_t dash = file_name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  return PluginFileName{std::string(file_name.substr(0, dash)),
                        std::string(file_name.substr(dash + 1))};
}

std::string plugin_file_name(std::string_view kind, std::string_view name) {
  return text(kPrefix, kind, "-", name, kSuffix);
}

}  // namespace megatron::plugin
