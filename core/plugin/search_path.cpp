#include "plugin/search_path.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.hpp"
#include "plugin/kind.hpp"

namespace megatron::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPathVariable = "MEGATRON_PLUGIN_PATH";
constexpr std::string_view kOnlyVariable = "MEGATRON_PLUGIN_PATH_ONLY";
constexpr std::string_view kPlugins = "megatron/plugins";

std::optional<std::string> environment_value(const char* name) {
  const char* value = ::secure_getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

void add_folder(SearchPath& search, std::string_view folder, std::string_view origin) {
  std::string path = absolute_path(folder);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const bool known = std::any_of(search.folders.begin(), search.folders.end(), [&](const auto& f) {
    std::error_code ignored;  // a folder that does not exist is equivalent to none
    return f.path == path || fs::equivalent(f.path, path, ignored);
  });
  if (!known) search.folders.push_back({std::move(path), std::string(origin)});
}

Status add_named_folders(SearchPath& search, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) {
      return invalid_argument(
          text("--plugin-path ", absolute_path(folder), " cannot be searched"),
          fs::exists(folder, ignored) ? "it is not a folder" : "the folder does not exist",
          "name the folder that holds the megatron-<kind>-<name>.so files");
    }
    add_folder(search, folder, "--plugin-path");
  }
  return {};
}

Status add_variable_folders(SearchPath& search, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    const std::string_view folder = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (folder.empty()) continue;  // other programs would take it for the current directory
    if (!folder.starts_with('/')) {
      return invalid_argument(text(kPathVariable, " holds the relative folder '", folder, "'"),
                              "it would mean another folder wherever the command is started",
                              "write its absolute path");
    }
    add_folder(search, folder, kPathVariable);
  }
  return {};
}

Result<bool> only_variable(const SearchEnvironment& environment) {
  const std::string value = environment.plugin_path_only.value_or("");
  if (value.empty() || value == "0") return false;
  if (value == "1") return true;
  return invalid_argument(text(kOnlyVariable, " is '", value, "'"),
                          "it is a switch: 1 (on), 0 or unset (off)",
                          text("set ", kOnlyVariable, "=1, or unset it"));
}

void add_default_folders(SearchPath& search, const SearchEnvironment& environment) {
  const std::string& bin = environment.executable_folder;
  if (!bin.empty()) {
    // An installation or a build tree that was moved as a whole finds its own plugins.
    add_folder(search, text(bin, "/../lib/", kPlugins), "beside the executable");
    add_folder(search, text(bin, "/", environment.relative_libdir, "/", kPlugins),
               "beside the executable");
  }
  add_folder(search, text(environment.install_libdir, "/", kPlugins), "installed");
  const std::string data = environment.xdg_data_home.value_or("");
  const std::string home = environment.home.value_or("");
  if (data.starts_with('/')) {  // the XDG specification: relative values are to be ignored
    add_folder(search, text(data, "/", kPlugins), "XDG_DATA_HOME");
  } else if (home.starts_with('/')) {
    add_folder(search, text(home, "/.local/share/", kPlugins), "the user's data folder");
  }
}

}  // namespace

SearchEnvironment system_search_environment() {
  SearchEnvironment environment;
  environment.plugin_path = environment_value("MEGATRON_PLUGIN_PATH");
  environment.plugin_path_only = environment_value("MEGATRON_PLUGIN_PATH_ONLY");
  environment.xdg_data_home = environment_value("XDG_DATA_HOME");
  environment.home = environment_value("HOME");
  std::error_code ignored;  // without /proc there is no folder beside the executable
  environment.executable_folder =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().string();
  environment.relative_libdir = MEGATRON_RELATIVE_LIBDIR;
  environment.install_libdir = MEGATRON_INSTALL_LIBDIR;
  return environment;
}

Result<SearchPath> make_search_path(const std::vector<std::string>& files,
                                    const std::vector<std::string>& folders,
                                    const SearchEnvironment& environment) {
  SearchPath search;
  for (const std::string& file : files) search.files.push_back(absolute_path(file));
  MGT_RETURN_IF_ERROR(add_named_folders(search, folders));
  MGT_RETURN_IF_ERROR(add_variable_folders(search, environment.plugin_path.value_or("")));
  MGT_ASSIGN_OR_RETURN(const bool only, only_variable(environment));
  if (!only) add_default_folders(search, environment);
  return search;
}

std::string describe(const SearchPath& search) {
  std::string out;
  for (const auto& folder : search.folders) {
    std::error_code ignored;
    const bool exists = fs::exists(folder.path, ignored);
    out += text(out.empty() ? "" : ", ", folder.path, " (", folder.origin,
                exists ? ")" : "; does not exist)");
  }
  return out.empty() ? "no folder" : out;
}

Result<std::vector<std::string>> plugin_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (parse_file_name(entry->path().filename().string()).has_value())
      files.push_back(entry->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status::error(Code::permission_denied, text("cannot search ", folder, " for plugins"),
                         text("the system says: ", error.message()),
                         "change its permissions, or take it out of the search path");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace megatron::plugin
