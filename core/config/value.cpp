#include "config/value.hpp"

#include <cmath>
#include <iterator>

#include "megatron/status.hpp"

namespace megatron::config {
namespace {

struct TypeRow {
  Type type;
  Type element;
  size_t index;  // of the alternative of Value
  std::string_view name;
};
constexpr TypeRow kTypes[] = {
    {Type::boolean, Type::boolean, 1, "a boolean"},
    {Type::integer, Type::integer, 2, "an integer"},
    {Type::floating, Type::floating, 3, "a float"},
    {Type::string, Type::string, 4, "a string"},
    {Type::path, Type::path, 4, "a path"},
    {Type::integers, Type::integer, 5, "a list of integers"},
    {Type::floats, Type::floating, 6, "a list of floats"},
    {Type::strings, Type::string, 7, "a list of strings"},
    {Type::paths, Type::path, 7, "a list of paths"},
};
const TypeRow* row_of(Type type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return &row;
  return nullptr;
}

std::string print(std::monostate) { return {}; }
std::string print(bool b) { return b ? "true" : "false"; }
std::string print(int64_t i) { return text(i); }
std::string print(double d) {
  if (std::isnan(d)) return std::signbit(d) ? "-nan" : "nan";  // to_chars may add a payload
  std::string out = text(d);  // the shortest form that reads back to the same double
  // An integer would read back as another type.
  if (std::isfinite(d) && out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}
std::string print(const std::string& s) { return to_toml_string(s); }
template <class T>
std::string print(const std::vector<T>& list) {
  std::string out = "[";
  for (const T& element : list) {
    if (out.size() > 1) out += ", ";
    out += print(element);
  }
  return out + "]";
}

}  // namespace

bool is_known(Type type) { return row_of(type) != nullptr; }
Type element_type(Type list) {
  const TypeRow* row = row_of(list);
  return row == nullptr ? list : row->element;
}
bool is_list(Type type) { return element_type(type) != type; }
std::string_view type_name(Type type) {
  const TypeRow* row = row_of(type);
  return row == nullptr ? "an unknown type" : row->name;
}
bool holds(const Value& value, Type type) {
  const TypeRow* row = row_of(type);
  return row != nullptr && value.index() == row->index;
}

std::string to_toml(const Value& value) {
  return std::visit([](const auto& v) { return print(v); }, value);
}

std::string to_toml_string(std::string_view s) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace megatron::config
