#include "plugin/scan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plugin/dynamic_library.hpp"
#include "plugin/elf_file.hpp"
#include "plugin/elf_note.hpp"
#include "plugin/kind.hpp"

namespace megatron::plugin {
namespace {

// "fact: cause" of a message in three lines.
std::string summary(const Status& problem) {
  std::string line(problem.diagnosis());
  for (size_t at = line.find("\n  "); at != std::string::npos; at = line.find("\n  "))
    line.replace(at, 3, ": ");
  return line;
}

void mark(PluginRow& row, State state, std::string reason, const Status& problem) {
  row.state = state;
  row.reason = std::move(reason);
  row.problem = Status(
      kUnusable, text("plugin '", row.path, "' ", state_name(state), ": ", problem.message()));
}

void refuse(PluginRow& row, const Status& problem) {
  mark(row, State::refused, summary(problem), problem);
}

// The file name is what a search goes by, so it must not promise another plugin.
Status check_file_name(const std::optional<PluginFileName>& file, const PluginRow& row) {
  if (!file.has_value() || (file->kind == row.kind && file->name == row.name)) return {};
  return Status::error(Code::failed_precondition, "file name and note disagree",
                       text("the file name says ", file->kind, " '", file->name,
                            "', the note says ", row.kind, " '", row.name, "'"),
                       text("rename the file to ", plugin_file_name(row.kind, row.name)));
}

PluginRow inspect(const std::string& path, bool named_by_user, const HostFacts& host,
                  const LoaderEnvironment& loader) {
  PluginRow row;
  row.path = path;
  const auto file_name = parse_file_name(std::filesystem::path(path).filename().string());
  if (file_name.has_value()) {
    row.kind = file_name->kind;
    row.name = file_name->name;
  }
  auto note = read_note(path);
  if (!note.ok()) return refuse(row, note.status()), row;
  row.note = *note;
  const Status compatible = check_compatibility(*note, host);
  if (!compatible.ok()) return refuse(row, compatible), row;

  row.kind = kind_name(note->kind);
  row.name = note->name;
  if (!named_by_user) {
    if (const Status fits = check_file_name(file_name, row); !fits.ok()) {
      row.kind = file_name->kind;
      row.name = file_name->name;
      return refuse(row, fits), row;
    }
  }
  if (const auto missing = find_missing_library(path, loader)) {
    const std::string by =
        missing->needed_by == path ? "" : text(" (needed by ", missing->needed_by, ")");
    mark(row, State::unavailable, text(missing->name, " not found", by),
         missing_library(*missing, path));
  }
  return row;
}

using Identity = std::pair<dev_t, ino_t>;

std::optional<Identity> identity(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return Identity(info.st_dev, info.st_ino);
}

class Scanner {
 public:
  Scanner(const HostFacts& host, const LoaderEnvironment& loader) : host_(host), loader_(loader) {}

  void add(const std::string& path, bool named_by_user) {
    const auto id = identity(path);
    if (id.has_value() && seen_.contains(*id)) return;
    PluginRow row = inspect(path, named_by_user, host_, loader_);
    // A link with a wrong name must not hide the file under its right one.
    const bool misnamed = row.note.has_value() && row.state == State::refused;
    if (id.has_value() && !misnamed) seen_.insert(*id);
    if (!row.name.empty()) {
      const auto [winner, first] = winners_.try_emplace({row.kind, row.name}, row.path);
      if (!first) {
        mark(row, State::shadowed, text("shadowed by ", winner->second),
             Status::error(Code::already_exists, text("shadowed by ", winner->second)));
      }
    }
    rows_.push_back(std::move(row));
  }

  std::vector<PluginRow> sorted_rows() && {
    std::stable_sort(rows_.begin(), rows_.end(), [](const PluginRow& a, const PluginRow& b) {
      return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
    });
    return std::move(rows_);
  }

 private:
  const HostFacts& host_;
  const LoaderEnvironment& loader_;
  std::set<Identity> seen_;
  std::map<std::pair<std::string, std::string>, std::string> winners_;
  std::vector<PluginRow> rows_;
};

}  // namespace

std::string_view state_name(State state) {
  constexpr std::string_view kNames[] = {"available", "unavailable", "refused", "shadowed"};
  return kNames[static_cast<size_t>(state)];
}

ScanResult scan(const SearchPath& search, const HostFacts& host, const LoaderEnvironment& loader) {
  ScanResult result;
  Scanner scanner(host, loader);
  for (const std::string& file : search.files) scanner.add(file, true);
  for (const SearchFolder& folder : search.folders) {
    const auto files = plugin_files(folder.path);
    if (!files.ok()) {
      result.warnings.push_back(files.status());
      continue;
    }
    for (const std::string& file : *files) scanner.add(file, false);
  }
  result.rows = std::move(scanner).sorted_rows();
  return result;
}

}  // namespace megatron::plugin
