// A manifest as read: files, includes and --set merged, nothing checked against schemas. It tells
// which plugins the experiment names, so that the host can load them and get their schemas.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/node.hpp"
#include "config/schema.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

class Manifest {
 public:
  // Errors: no such file, TOML syntax, includes, malformed overrides; each with its place.
  static Result<Manifest> load(const std::string& path,
                               std::span<const std::string> overrides = {});

  const Node& root() const { return root_; }
  const std::vector<std::string>& files() const { return files_; }  // first: the manifest itself
  const std::string& folder() const { return folder_; }             // absolute; of the manifest

 private:
  Node root_;
  std::vector<std::string> files_;
  std::string folder_;
};

struct NamedPlugin {
  std::string section;  // "optimizer"
  size_t index;         // which table of a [[section]]
  std::string name;     // "adamw"
  Origin origin;
  friend bool operator==(const NamedPlugin& a, const NamedPlugin& b) {
    return a.section == b.section && a.index == b.index && a.name == b.name;
  }
};

// The plugins that the sections ask for, by key or by the default of the host's option "plugin", in
// the order of `sections`. Malformed sections are passed over: resolve() reports them.
std::vector<NamedPlugin> named_plugins(const Manifest& manifest,
                                       std::span<const SectionSchema> sections);

}  // namespace megatron::config
