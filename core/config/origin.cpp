#include "config/origin.hpp"

#include "megatron/status.hpp"

namespace megatron::config {

std::string location(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::file:
      if (origin.line == 0) return origin.file->name;
      return text(origin.file->name, ":", origin.line, ":", origin.column);
    case Origin::Kind::command_line:
      return origin.note;
    default:
      return provenance(origin);
  }
}

std::string provenance(const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::default_value:
      return "default";
    case Origin::Kind::file:
      return origin.line == 0 ? origin.file->name : text(origin.file->name, ":", origin.line);
    case Origin::Kind::command_line:
      return origin.note.substr(0, origin.note.find(' '));
    case Origin::Kind::derived:
      return text("derived ", origin.note);
  }
  return {};
}

}  // namespace megatron::config
