// Where a value came from. Every message about a value, and every line of the printed
// configuration, says it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace megatron::config {

struct SourceFile {
  std::string name;    // as the user wrote it; for messages
  std::string folder;  // absolute; relative paths in the file start here
};

struct Origin {
  enum class Kind { default_value, file, command_line, derived };
  Kind kind = Kind::default_value;
  std::shared_ptr<const SourceFile> file = nullptr;  // kind file
  uint32_t line = 0, column = 0;                     // kind file; from 1
  std::string note = {};  // command_line: "--set SECTION.KEY=VALUE"; derived: the reason

  static Origin of_file(std::shared_ptr<const SourceFile> file, uint32_t line, uint32_t column) {
    return {Kind::file, std::move(file), line, column, {}};
  }
  // `words`: an option and its value, as the user wrote them.
  static Origin of_command_line(std::string words) {
    return {Kind::command_line, nullptr, 0, 0, std::move(words)};
  }
  static Origin of_reason(std::string reason) {
    return {Kind::derived, nullptr, 0, 0, std::move(reason)};
  }
  bool by_user() const { return kind == Kind::file || kind == Kind::command_line; }
};

// For the head of a message: "a.toml:3:5", "--set train.steps=5"; "default", "derived from …".
std::string location(const Origin& origin);
// For the printed configuration: "a.toml:3", "--set" (the option alone), "default", "derived from
// the tokenizer".
std::string provenance(const Origin& origin);

}  // namespace megatron::config
