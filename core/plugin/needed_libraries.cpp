#include "plugin/needed_libraries.hpp"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string_view>

#include "plugin/dynamic_section.hpp"
#include "plugin/elf_file.hpp"

namespace megatron::plugin {
namespace {

constexpr std::string_view kMultiarch = MEGATRON_MULTIARCH;  // "x86_64-linux-gnu" on Debian

std::vector<std::string> split(std::string_view list, std::string_view separators) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(separators), list.size());
    parts.emplace_back(end == 0 ? std::string_view(".") : list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

// What $LIB may stand for: it depends on how the system's loader was built.
std::vector<std::string> lib_folders() {
  std::vector<std::string> names{"lib64", "lib"};
  if (!kMultiarch.empty()) names.insert(names.begin(), text("lib/", kMultiarch));
  return names;
}

// Replaces $NAME and ${NAME}; true when there was one.
bool substitute(std::string& folder, std::string_view name, std::string_view value) {
  for (const std::string& token : {text("${", name, "}"), text("$", name)}) {
    if (const size_t at = folder.find(token); at != std::string::npos) {
      folder.replace(at, token.size(), value);
      return true;
    }
  }
  return false;
}

// The folders of a RUNPATH or RPATH of the file at `path`.
std::vector<std::string> expand_run_path(std::string_view run_path, const std::string& path) {
  const std::string origin = std::filesystem::path(path).parent_path().string();
  const auto* platform = reinterpret_cast<const char*>(::getauxval(AT_PLATFORM));
  std::vector<std::string> folders;
  for (std::string folder : split(run_path, ":")) {
    substitute(folder, "ORIGIN", origin);
    substitute(folder, "PLATFORM", platform == nullptr ? "" : platform);
    std::string probe = folder;
    if (!substitute(probe, "LIB", "")) {
      folders.push_back(std::move(folder));
      continue;
    }
    for (const std::string& lib : lib_folders()) {
      folders.push_back(folder);
      substitute(folders.back(), "LIB", lib);
    }
  }
  return folders;
}

// A file whose libraries are still to be looked for.
struct Pending {
  std::string path;
  std::vector<std::string> inherited;  // RPATH folders of the files that led here
};

// The places for one file's libraries, in the loader's order.
struct Places {
  std::vector<std::string> folders;  // before the cache
  std::vector<std::string> rpath;    // the part that the file's libraries inherit
  bool use_defaults = true;
};

Places places_for(const Pending& file, const DynamicSection& section,
                  const LoaderEnvironment& environment) {
  Places places;
  places.rpath = expand_run_path(section.runpath.empty() ? section.rpath : "", file.path);
  places.rpath.insert(places.rpath.end(), file.inherited.begin(), file.inherited.end());
  if (section.runpath.empty()) places.folders = places.rpath;
  const auto append = [&](const std::vector<std::string>& more) {
    places.folders.insert(places.folders.end(), more.begin(), more.end());
  };
  append(environment.library_path);
  append(expand_run_path(section.runpath, file.path));
  places.use_defaults = !section.no_default_folders;
  return places;
}

// The loader passes over files of another machine; so do we.
bool is_loadable(const std::string& path) { return ElfFile::open(path).ok(); }

std::optional<std::string> locate(const std::string& name, const Places& places,
                                  const LoaderEnvironment& environment) {
  if (name.find('/') != std::string::npos)
    return is_loadable(name) ? std::optional(name) : std::nullopt;
  for (const auto& folder : places.folders)
    if (std::string path = text(folder, "/", name); is_loadable(path)) return path;
  if (!places.use_defaults) return std::nullopt;
  if (const auto cached = environment.cache.find(name); cached != environment.cache.end()) {
    for (const auto& path : cached->second)
      if (is_loadable(path)) return path;
  }
  for (const auto& folder : environment.default_folders)
    if (std::string path = text(folder, "/", name); is_loadable(path)) return path;
  return std::nullopt;
}

}  // namespace

LoaderEnvironment system_loader_environment() {
  LoaderEnvironment environment;
  if (const char* list = ::secure_getenv("LD_LIBRARY_PATH"); list != nullptr)
    environment.library_path = split(list, ":;");
  environment.cache = read_loader_cache();
  for (const std::string_view root : {"/", "/usr/"})
    for (const std::string& lib : lib_folders())
      environment.default_folders.push_back(text(root, lib));
  // A library that the process has already is taken by name, wherever it came from.
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        static_cast<std::set<std::string>*>(out)->insert(
            std::filesystem::path(info->dlpi_name).filename().string());
        return 0;
      },
      &environment.loaded);
  return environment;
}

std::optional<MissingLibrary> find_missing_library(const std::string& path,
                                                   const LoaderEnvironment& environment) {
  std::set<std::string> found = environment.loaded;
  std::deque<Pending> pending{{path, {}}};
  for (; !pending.empty(); pending.pop_front()) {
    const Pending& file = pending.front();
    const auto elf = ElfFile::open(file.path);
    if (!elf.ok()) continue;
    const auto section = read_dynamic_section(*elf);
    if (!section.ok()) continue;
    const Places places = places_for(file, *section, environment);
    for (const std::string& name : section->needed) {
      if (!found.insert(name).second) continue;
      const auto place = locate(name, places, environment);
      if (!place.has_value()) return MissingLibrary{name, file.path};
      pending.push_back({*place, places.rpath});
    }
  }
  return std::nullopt;
}

}  // namespace megatron::plugin
