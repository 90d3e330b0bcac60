// Where plugins are looked for, in order: named files, --plugin-path, MEGATRON_PLUGIN_PATH, beside
// the executable, the compiled-in install folder, the user's data folder. Never the current
// directory, never below a folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::plugin {

struct SearchFolder {
  std::string path;    // absolute
  std::string origin;  // who asked for it: "--plugin-path", "MEGATRON_PLUGIN_PATH", …
};

struct SearchPath {
  std::vector<std::string> files;  // absolute; named one by one, before any folder
  std::vector<SearchFolder> folders;
};

// What the process brings along; tests put other values in.
struct SearchEnvironment {
  std::optional<std::string> plugin_path;  // MEGATRON_PLUGIN_PATH: absolute folders, ':' between
  std::optional<std::string> plugin_path_only;  // MEGATRON_PLUGIN_PATH_ONLY=1: nothing after those
  std::optional<std::string> xdg_data_home;     // XDG_DATA_HOME
  std::optional<std::string> home;              // HOME
  std::string executable_folder;                // of /proc/self/exe, links resolved
  std::string relative_libdir;                  // from there, in an installation
  std::string install_libdir;                   // absolute
};
// Reads the variables with secure_getenv: a set-user-id host trusts none of them.
SearchEnvironment system_search_environment();

// `files` and `folders` are what the user named, relative to the current directory. Errors
// (INVALID_ARGUMENT): a named folder that does not exist, a relative folder or an unclear switch in
// the environment.
Result<SearchPath> make_search_path(const std::vector<std::string>& files,
                                    const std::vector<std::string>& folders,
                                    const SearchEnvironment& environment);

// "/a (--plugin-path), /b (the executable's folder; does not exist)"
std::string describe(const SearchPath& search);

// Files of `folder` named megatron-<kind>-<name>.so, absolute and sorted. A folder that does not
// exist has none; one that cannot be read is an error.
Result<std::vector<std::string>> plugin_files(const std::string& folder);

}  // namespace megatron::plugin
