// The host as a plugin sees it: logging, the shared thread budget, and the plugin's own options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "megatron/abi/host.h"
#include "megatron/status.hpp"

namespace megatron {

// A thin view of the host table; copy freely.
class Host {
 public:
  Host() = default;
  explicit Host(const mgt_host* table) : table_(table) {}

  void log(mgt_log_level level, std::string_view message) const {
    table_->log(table_->context, level, to_abi(message));
  }
  void info(std::string_view message) const { log(MGT_LOG_INFO, message); }
  void warning(std::string_view message) const { log(MGT_LOG_WARNING, message); }

  uint32_t workers() const { return table_->worker_count(table_->context); }

  // body(task, worker) for every task in [0, tasks); returns when all are done. Not from inside a
  // task.
  template <class Body>
  void parallel_for(int64_t tasks, Body&& body) const {
    using Plain = std::remove_reference_t<Body>;
    table_->parallel_for(
        table_->context, tasks,
        [](void* arg, int64_t task, uint32_t worker) { (*static_cast<Plain*>(arg))(task, worker); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  const mgt_host* table() const { return table_; }

 private:
  const mgt_host* table_ = nullptr;
};

// The plugin's validated section of the manifest. Valid during the call that receives it; throws
// StatusError for a key that the plugin's schema does not declare.
class Config {
 public:
  explicit Config(const mgt_config* table) : table_(table) {}

  bool boolean(std::string_view key) const { return get(key).i != 0; }
  int64_t integer(std::string_view key) const { return get(key).i; }
  double number(std::string_view key) const { return get(key).f; }
  std::string string(std::string_view key) const { return std::string(from_abi(get(key).s)); }
  std::vector<int64_t> integers(std::string_view key) const {
    const auto v = get(key);
    return {v.ints, v.ints + v.count};
  }
  std::vector<double> numbers(std::string_view key) const {
    const auto v = get(key);
    return {v.floats, v.floats + v.count};
  }
  std::vector<std::string> strings(std::string_view key) const {
    const auto v = get(key);
    std::vector<std::string> out;
    for (uint64_t i = 0; i < v.count; ++i) out.emplace_back(from_abi(v.strings[i]));
    return out;
  }

 private:
  mgt_config_value get(std::string_view key) const {
    mgt_config_value value;
    MGT_INIT(&value);
    throw_if_error(from_abi(table_->get(table_->context, to_abi(key), &value), "the host"));
    return value;
  }
  const mgt_config* table_;
};

// Declares one key of a plugin's section; see MEGATRON_PLUGIN.
//   option("beta1", MGT_OPTION_FLOAT, "0.9", "decay of the first moment").at_least(0).below(1)
struct Option : mgt_option {
  constexpr Option(std::string_view key_, mgt_option_type type_, std::string_view default_value_,
                   std::string_view doc_)
      : mgt_option{} {
    struct_size = sizeof(mgt_option);
    type = type_;
    key = {key_.data(), key_.size()};
    doc = {doc_.data(), doc_.size()};
    default_value = {default_value_.data(), default_value_.size()};
  }
  constexpr Option& required() { return flags |= MGT_OPTION_REQUIRED, *this; }
  constexpr Option& at_least(double v) { return min = v, flags |= MGT_OPTION_HAS_MIN, *this; }
  constexpr Option& at_most(double v) { return max = v, flags |= MGT_OPTION_HAS_MAX, *this; }
  constexpr Option& above(double v) { return flags |= MGT_OPTION_MIN_EXCLUSIVE, at_least(v); }
  constexpr Option& below(double v) { return flags |= MGT_OPTION_MAX_EXCLUSIVE, at_most(v); }
  template <size_t N>
  constexpr Option& one_of(const mgt_str (&values)[N]) {
    return choices = values, choice_count = N, *this;
  }
};
static_assert(sizeof(Option) == sizeof(mgt_option));

constexpr Option option(std::string_view key, mgt_option_type type, std::string_view default_value,
                        std::string_view doc) {
  return {key, type, default_value, doc};
}

}  // namespace megatron
