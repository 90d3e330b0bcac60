#include "config/include.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "config/toml.hpp"

namespace megatron::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 4096;

// One file whatever it is called: two names of it make a cycle too.
std::string identity(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  return error ? absolute_path(path) : canonical.string();
}

class Loader {
 public:
  Result<Node> load(const std::string& path, const Origin* from) {
    const std::string id = identity(path);
    for (const auto& [open_id, name] : chain_)
      if (open_id == id) return cycle(path, *from, id);

    if (!is_toml_text(path)) return unnamable(path);
    auto text_of_file = read_file(path);
    if (!text_of_file.ok()) return unreadable(path, from, text_of_file.status());
    auto file = std::make_shared<const SourceFile>(
        SourceFile{path, fs::path(absolute_path(path)).parent_path().string()});
    files_.push_back(path);
    if (files_.size() > kMostFiles) return too_many(path, *from);
    MGT_ASSIGN_OR_RETURN(Node own, parse_toml(*text_of_file, file));

    chain_.emplace_back(id, path);
    auto merged = with_includes(std::move(own), path);
    chain_.pop_back();
    return merged;
  }
  std::vector<std::string> take_files() { return std::move(files_); }

 private:
  Result<Node> with_includes(Node own, const std::string& path) {
    const auto include = std::find_if(own.members.begin(), own.members.end(),
                                      [](const Member& m) { return m.key == "include"; });
    if (include == own.members.end()) return own;
    const Node list = std::move(include->value);
    own.members.erase(include);

    Node merged = Node::of_table(own.origin);
    if (list.kind != Node::Kind::array) return not_a_list(list);
    for (const Node& item : list.items) {
      const auto* name = std::get_if<std::string>(&item.scalar);
      if (name == nullptr) return not_a_list(item);
      const std::string target = (fs::path(path).parent_path() / *name).lexically_normal().string();
      MGT_ASSIGN_OR_RETURN(Node base, load(target, &item.origin));
      merge(merged, std::move(base));
    }
    merge(merged, std::move(own));
    return merged;
  }

  static Status not_a_list(const Node& node) {
    return invalid_argument(
        text(location(node.origin), ": include = ", excerpt(node), " is not a list of files"),
        text("this is ", kind_name(node)),
        "write include = [\"base.toml\"], paths relative to this file");
  }

  // A checkpoint's manifest tells where its values came from.
  static Status unnamable(const std::string& path) {
    return invalid_argument(text("cannot read the manifest ", path),
                            "the file's name is not UTF-8, and a manifest names it",
                            "rename the file or its folder");
  }

  static Status unreadable(const std::string& path, const Origin* from, const Status& status) {
    const std::string absolute = absolute_path(path);
    const bool absent = status.code() == Code::not_found;
    const std::string cause = absent ? text(absolute, " does not exist")
                                     : text("reading ", absolute, " failed: ", reason(status));
    if (from == nullptr) {
      return Status::error(status.code(), text("cannot read the manifest ", path), cause,
                           absent ? "correct the path" : "make it a readable file");
    }
    return Status::error(status.code(), text(location(*from), ": cannot include ", path), cause,
                         absent ? "correct the path; it is relative to the including file"
                                : "make it a readable file");
  }

  // The system's words out of the three lines of errno_status.
  static std::string reason(const Status& status) {
    constexpr std::string_view kSays = "the system says: ";
    std::string_view message = status.message();
    const auto at = message.find(kSays);
    if (at == std::string_view::npos) return std::string(message);
    message.remove_prefix(at + kSays.size());
    return std::string(message.substr(0, message.find('\n')));
  }

  static Status too_many(const std::string& path, const Origin& from) {
    return invalid_argument(text(location(from), ": cannot include ", path),
                            text("the manifest has more than ", kMostFiles,
                                 " includes, each counted as often as it is read"),
                            "include each file once, from the manifest");
  }

  Status cycle(const std::string& path, const Origin& from, const std::string& id) const {
    std::string names;
    bool inside = false;
    for (const auto& [open_id, name] : chain_) {
      inside = inside || open_id == id;
      if (inside) names += text(name, " -> ");
    }
    return invalid_argument(text(location(from), ": ", path, " includes itself"),
                            text("the includes form a cycle: ", names, path),
                            "remove one of these includes");
  }

  std::vector<std::pair<std::string, std::string>> chain_;  // identity, name
  std::vector<std::string> files_;
};

}  // namespace

Result<Loaded> load_with_includes(const std::string& path) {
  Loader loader;
  MGT_ASSIGN_OR_RETURN(Node root, loader.load(path, nullptr));
  return Loaded{std::move(root), loader.take_files()};
}

}  // namespace megatron::config
