// A manifest as read: files, includes and --set merged, nothing checked against schemas. It tells
// which plugins the experiment names, so that the host can load them and get their schemas.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/node.hpp"
#include "config/overrides.hpp"
#include "config/schema.hpp"
#include "megatron/status.hpp"

namespace megatron::config {

// A section that a command's own options give: --tokenizer gpt2_bpe --tokenizer-option KEY=VALUE.
struct CommandLineSection {
  std::string name;             // "tokenizer"
  std::string plugin_option;    // "--tokenizer"
  std::string plugin;           // its value
  AssignmentOption key_option;  // of `assignments`
  std::vector<std::string> assignments;
};

class Manifest {
 public:
  // Errors: no such file, TOML syntax, includes, malformed overrides; each with its place.
  static Result<Manifest> load(const std::string& path,
                               std::span<const std::string> overrides = {});
  // A manifest of that section alone, without a file. Errors: malformed assignments, one to the key
  // `plugin`.
  static Result<Manifest> of_command_line(const CommandLineSection& section);

  const Node& root() const { return root_; }
  const std::vector<std::string>& files() const { return files_; }  // first: the manifest itself
  const std::string& folder() const { return folder_; }             // absolute; of the manifest
  // How the user sets a key: "" as a line of a file; else the option that takes KEY=VALUE.
  const std::string& key_option() const { return key_option_; }

 private:
  Node root_;
  std::vector<std::string> files_;
  std::string folder_;
  std::string key_option_;
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
