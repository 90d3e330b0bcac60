// Would the dynamic loader find every library that a plugin needs? Answered by repeating its search
// (ld.so(8)) over DT_NEEDED, so that `list-plugins` tells without running foreign code.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/loader_cache.hpp"

namespace megatron::plugin {

// Where the loader looks; tests put other places in.
struct LoaderEnvironment {
  std::vector<std::string> library_path;  // LD_LIBRARY_PATH
  LoaderCache cache;
  std::vector<std::string> default_folders;
  std::set<std::string> loaded;  // file names of what this process has loaded already
};
LoaderEnvironment system_loader_environment();

struct MissingLibrary {
  std::string name;       // "libcuda.so.1"
  std::string needed_by;  // absolute path of the file that names it
};

// The first library that would not be found for the file at `path` or, in turn, for its libraries;
// nullopt when all are there. Files that cannot be parsed are left to the loader.
std::optional<MissingLibrary> find_missing_library(const std::string& path,
                                                   const LoaderEnvironment& environment);

}  // namespace megatron::plugin
