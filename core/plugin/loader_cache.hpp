// /etc/ld.so.cache: which file the dynamic loader takes for a library's name (ldconfig(8)).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace megatron::plugin {

// Library name -> files, of all architectures and hardware levels; the reader of the map checks
// which fits. A name found only for a higher hardware level counts as found: the loader has the
// last word.
using LoaderCache = std::map<std::string, std::vector<std::string>, std::less<>>;

// Parses the format of glibc 2.2 and later ("glibc-ld.so.cache1.1"), alone or behind the older one.
// A damaged file gives the entries that are intact, an unknown format none.
LoaderCache parse_loader_cache(std::string_view bytes);

// The system's cache; empty when there is none.
LoaderCache read_loader_cache(const std::string& path = "/etc/ld.so.cache");

}  // namespace megatron::plugin
