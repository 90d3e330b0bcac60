// Lists the plugins of a search path and what is to be said about each, without loading any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/abi/note.h"
#include "megatron/status.hpp"
#include "plugin/compatibility.hpp"
#include "plugin/needed_libraries.hpp"
#include "plugin/search_path.hpp"

namespace megatron::plugin {

// Code of every error that says: a plugin that was asked for cannot be used (exit code 3). It lies
// beyond the codes of the ABI, so that no other error can be taken for it.
inline constexpr Code kUnusable{1000};

enum class State {
  available,    // loads when it is asked for
  unavailable,  // fits this host but needs a library that is absent
  refused,      // no plugin, or not for this host
  shadowed,     // another of the same kind and name comes earlier in the search path
};
std::string_view state_name(State state);

struct PluginRow {
  std::string kind;  // of the note; without one, of the file name; else empty
  std::string name;
  std::string path;  // absolute
  std::optional<mgt_note_desc> note;
  State state = State::available;
  std::string reason;  // one line; empty when available
  Status problem;      // kUnusable, for a user who asked for it; OK when available
};

struct ScanResult {
  std::vector<PluginRow> rows;   // by kind, name, then search order
  std::vector<Status> warnings;  // folders that could not be searched
};

// The first file of a kind and name wins, usable or not: a stale copy that quietly gave way to a
// later one would be found by nobody. A file met again (link, folder named twice) is listed once.
ScanResult scan(const SearchPath& search, const HostFacts& host, const LoaderEnvironment& loader);

}  // namespace megatron::plugin
