#include "config/node.hpp"

#include <algorithm>
#include <utility>

namespace megatron::config {

Node Node::of_table(Origin origin) { return of_scalar(Kind::table, {}, std::move(origin)); }

Node Node::of_scalar(Kind kind, Value value, Origin origin) {
  Node node;
  node.kind = kind;
  node.scalar = std::move(value);
  node.origin = std::move(origin);
  return node;
}

const Member* Node::find(std::string_view key) const {
  const auto it = std::find_if(members.begin(), members.end(),
                               [&](const Member& member) { return member.key == key; });
  return it == members.end() ? nullptr : &*it;
}
Member* Node::find(std::string_view key) {
  return const_cast<Member*>(std::as_const(*this).find(key));
}

bool Node::is_array_of_tables() const {
  return kind == Kind::array && !items.empty() &&
         std::all_of(items.begin(), items.end(),
                     [](const Node& item) { return item.kind == Kind::table; });
}

std::string_view kind_name(const Node& node) {
  switch (node.kind) {
    case Node::Kind::boolean:
      return "a boolean";
    case Node::Kind::integer:
      return "an integer";
    case Node::Kind::floating:
      return "a float";
    case Node::Kind::string:
      return "a string";
    case Node::Kind::date:
      return "a date or time";
    case Node::Kind::array:
      return node.is_array_of_tables() ? "an array of tables" : "a list";
    case Node::Kind::table:
      return "a table";
  }
  return "nothing";
}

namespace {

void print(const Node& node, size_t limit, std::string& out) {
  if (out.size() > limit) return;  // cut anyway
  std::string_view separator;
  switch (node.kind) {
    case Node::Kind::date:
      out += node.source;
      return;
    case Node::Kind::array:
      out += "[";
      for (const Node& item : node.items) {
        out.append(std::exchange(separator, ", "));
        print(item, limit, out);
      }
      out += "]";
      return;
    case Node::Kind::table:
      out += "{";
      for (const Member& member : node.members) {
        out.append(std::exchange(separator, ", ")).append(member.key).append(" = ");
        print(member.value, limit, out);
      }
      out += "}";
      return;
    default:
      out += to_toml(node.scalar);
  }
}

}  // namespace

std::string excerpt(const Node& node, size_t limit) {
  std::string out;
  print(node, limit, out);
  if (out.size() <= limit) return out;
  // Never in the middle of a UTF-8 sequence.
  while (limit > 0 && (static_cast<unsigned char>(out[limit]) & 0xC0) == 0x80) --limit;
  return out.substr(0, limit) + "...";
}

void merge(Node& base, Node over) {
  if (base.kind != Node::Kind::table || over.kind != Node::Kind::table) {
    base = std::move(over);
    return;
  }
  base.origin = over.origin;
  for (Member& member : over.members) {
    if (Member* present = base.find(member.key)) {
      present->origin = member.origin;
      merge(present->value, std::move(member.value));
    } else {
      base.members.push_back(std::move(member));
    }
  }
}

void assign(Node& table, std::string_view key, Node value) {
  const Origin origin = value.origin;
  if (Member* present = table.find(key)) {
    *present = {std::string(key), origin, std::move(value)};
  } else {
    table.members.push_back({std::string(key), origin, std::move(value)});
  }
}

}  // namespace megatron::config
