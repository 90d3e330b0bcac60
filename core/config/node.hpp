// A manifest as written: TOML's tree with the place of every key and value, in the order of the
// source. Nothing is checked against a schema yet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/origin.hpp"
#include "config/value.hpp"

namespace megatron::config {

struct Member;

struct Node {
  enum class Kind { boolean, integer, floating, string, date, array, table };
  Kind kind = Kind::table;
  Value scalar;                 // boolean, integer, floating, string
  std::string source;           // date: as TOML; a scalar of --set: the text after '='
  std::vector<Node> items;      // array
  std::vector<Member> members;  // table
  Origin origin;

  static Node of_table(Origin origin);
  static Node of_scalar(Kind kind, Value value, Origin origin);

  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
  bool is_array_of_tables() const;  // one table at least
};

struct Member {
  std::string key;
  Origin origin;  // of the key
  Node value;
};

// "a string", "an array of tables", …: what was found, in messages.
std::string_view kind_name(const Node& node);
// The value as TOML on one line, shortened to `limit` bytes.
std::string excerpt(const Node& node, size_t limit = 48);

// Lays `over` onto `base`, table by table; of everything else, arrays included, `over` replaces it.
void merge(Node& base, Node over);
// Sets one key.
void assign(Node& table, std::string_view key, Node value);

}  // namespace megatron::config
