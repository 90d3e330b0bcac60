#include "config/fit.hpp"

#include <algorithm>
#include <cmath>

#include "base/suggest.hpp"
#include "config/toml.hpp"

namespace megatron::config {
namespace {

std::optional<Value> scalar_as(const Node& node, Type type) {
  switch (type) {
    case Type::boolean:
      if (node.kind == Node::Kind::boolean) return node.scalar;
      break;
    case Type::integer:
      if (node.kind == Node::Kind::integer) return node.scalar;
      break;
    case Type::floating:
      if (node.kind == Node::Kind::floating) return node.scalar;
      if (node.kind == Node::Kind::integer)
        return static_cast<double>(std::get<int64_t>(node.scalar));
      break;
    case Type::string:
    case Type::path:
      if (node.kind == Node::Kind::string) return node.scalar;
      // A shell eats quotes: --set train.name=007 means the text.
      if (node.origin.kind == Origin::Kind::command_line && !node.source.empty())
        return node.source;
      break;
    default:
      break;
  }
  return std::nullopt;
}

// The nearest correct line, when there is one.
std::optional<std::string> rewrite(const Node& node, const OptionSpec& option) {
  const Type type = option.type;
  const auto line = [&](std::string_view value) {
    return text("write ", option.key, " = ", value);
  };
  if (is_list(type)) {
    if (scalar_as(node, element_type(type))) return line(text("[", excerpt(node), "]"));
    return std::nullopt;
  }
  if (node.kind == Node::Kind::array && node.items.size() == 1 && scalar_as(node.items[0], type))
    return line(excerpt(node.items[0]));
  if (type == Type::integer && node.kind == Node::Kind::floating) {
    const double f = std::get<double>(node.scalar);
    if (f == std::trunc(f) && std::abs(f) < 9e15) return line(text(static_cast<int64_t>(f)));
  }
  if (type == Type::boolean && node.kind == Node::Kind::integer)
    return line(std::get<int64_t>(node.scalar) != 0 ? "true" : "false");
  if (node.kind == Node::Kind::string) {  // a number or boolean in quotes
    const auto& inside = std::get<std::string>(node.scalar);
    const auto bare = parse_value(inside, {});
    if (bare.has_value() && scalar_as(*bare, type)) return line(inside);
  }
  if ((type == Type::string || type == Type::path) && is_set(node.scalar))
    return line(to_toml_string(to_toml(node.scalar)));
  return std::nullopt;
}

Misfit wrong_type(const Node& node, const OptionSpec& option) {
  std::string action = text("write ", type_name(option.type));
  if (is_set(option.default_value))
    action += text(", such as the default ", to_toml(option.default_value));
  if (!option.choices.empty()) {
    action = text("write one of ", list_names(option.choices, "\""));
  } else if (const auto corrected = rewrite(node, option)) {
    action = *corrected;
  }
  return {
      text("is not ", type_name(option.type)),
      text("'", option.key, "' takes ", type_name(option.type), ", and this is ", kind_name(node)),
      action};
}

bool in_range(double v, const OptionSpec& option) {
  // Written so that a nan is outside of every range.
  if (option.min && !(option.min_exclusive ? v > *option.min : v >= *option.min)) return false;
  if (option.max && !(option.max_exclusive ? v < *option.max : v <= *option.max)) return false;
  return true;
}

// Range and choices of one number or string.
std::optional<Misfit> check(const Value& value, const OptionSpec& option) {
  double number = 0;
  if (const auto* i = std::get_if<int64_t>(&value)) number = static_cast<double>(*i);
  if (const auto* f = std::get_if<double>(&value)) number = *f;
  if (!std::isfinite(number)) {
    return Misfit{"is not finite", text("'", option.key, "' takes a finite number"),
                  "write a number; a TOML float ends at 1.8e308"};
  }
  if ((option.min || option.max) && !in_range(number, option)) {
    return Misfit{
        "is out of range", text("'", option.key, "' must be ", range_text(option)),
        is_set(option.default_value) && !is_list(option.type)
            ? text("write a value in this range; the default is ", to_toml(option.default_value))
            : "write a value in this range"};
  }
  const auto* s = std::get_if<std::string>(&value);
  if (s == nullptr || option.choices.empty()) return std::nullopt;
  if (std::find(option.choices.begin(), option.choices.end(), *s) != option.choices.end())
    return std::nullopt;
  const auto near = nearest_name(*s, option.choices);
  return Misfit{"is not one of the choices", text("choices: ", list_names(option.choices, "\"")),
                near ? text("write ", to_toml_string(*near)) : "write one of them"};
}

template <class T>
std::optional<Misfit> fit_list(const Node& node, const OptionSpec& option, Value& value) {
  std::vector<T> list;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string entry = text("has a wrong entry: number ", i + 1, ", ", excerpt(item), ", ");
    const auto element = scalar_as(item, element_type(option.type));
    if (!element) {
      return Misfit{text(entry, "is not ", type_name(element_type(option.type))),
                    text("'", option.key, "' takes ", type_name(option.type)),
                    "correct or remove this entry", item.origin};
    }
    if (auto misfit = check(*element, option)) {
      misfit->fact = entry + misfit->fact;
      misfit->place = item.origin;
      return misfit;
    }
    list.push_back(std::get<T>(*element));
  }
  value = std::move(list);
  return std::nullopt;
}

}  // namespace

std::optional<Misfit> fit(const Node& node, const OptionSpec& option, Value& value) {
  if (is_list(option.type)) {
    if (node.kind != Node::Kind::array) return wrong_type(node, option);
    switch (element_type(option.type)) {
      case Type::integer:
        return fit_list<int64_t>(node, option, value);
      case Type::floating:
        return fit_list<double>(node, option, value);
      default:
        return fit_list<std::string>(node, option, value);
    }
  }
  auto scalar = scalar_as(node, option.type);
  if (!scalar) return wrong_type(node, option);
  if (auto misfit = check(*scalar, option)) return misfit;
  value = std::move(*scalar);
  return std::nullopt;
}

}  // namespace megatron::config
