// Where the build put plugins, good and bad, and a search path of one folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugin/search_path.hpp"

namespace megatron::plugin {

inline const std::string kGoodFolder = MEGATRON_BINARY_DIR "/lib/megatron/plugins";
inline const std::string kBadFolder = MEGATRON_BINARY_DIR "/tests/bad_plugins";

inline SearchPath search(const std::string& folder) { return {{}, {{folder, "a test"}}}; }

// "model/gpt", … of the build.
struct Target {
  std::string kind, name;
  std::string path() const { return text(kGoodFolder, "/megatron-", kind, "-", name, ".so"); }
};
inline void PrintTo(const Target& target, std::ostream* out) { *out << target.path(); }

inline std::vector<Target> targets() {
  std::vector<Target> out;
  for (std::string_view rest = MEGATRON_PLUGIN_TARGETS; !rest.empty();) {
    std::string_view target = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), target.size() + 1));
    target.remove_prefix(std::string_view("megatron-").size());
    const size_t dash = target.find('-');
    out.push_back({std::string(target.substr(0, dash)), std::string(target.substr(dash + 1))});
  }
  return out;
}

}  // namespace megatron::plugin
