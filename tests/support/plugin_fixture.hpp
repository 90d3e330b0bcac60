// Plugins for tests, loaded from the build tree by path: a host table that runs tasks in the
// calling thread, and configurations written in place.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "megatron/abi/plugin.h"
#include "megatron/status.hpp"

namespace megatron::test {

// One worker: the caller. Lets several simulated ranks run kernels side by side.
inline const mgt_host* serial_host() {
  static const mgt_host host = [] {
    mgt_host h;
    MGT_INIT(&h);
    h.abi_major = MGT_ABI_MAJOR;
    h.abi_minor = MGT_ABI_MINOR;
    h.log = [](void*, mgt_log_level, mgt_str) {};
    h.worker_count = [](void*) -> uint32_t { return 1; };
    h.parallel_for = [](void*, int64_t tasks, mgt_task_fn fn, void* arg) {
      for (int64_t t = 0; t < tasks; ++t) fn(arg, t, 0);
    };
    h.get_extension = [](void*, mgt_str) -> const void* { return nullptr; };
    return h;
  }();
  return &host;
}

inline const mgt_plugin& load_plugin(const std::string& kind, const std::string& name) {
  const std::string path =
      text(MEGATRON_BINARY_DIR, "/lib/megatron/plugins/megatron-", kind, "-", name, ".so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  MGT_CHECK(library != nullptr, dlerror());
  const auto entry = reinterpret_cast<mgt_plugin_entry_fn>(dlsym(library, MGT_PLUGIN_ENTRY));
  MGT_CHECK(entry != nullptr, path);
  const mgt_plugin* plugin = nullptr;
  const Status status = from_abi(entry(serial_host(), &plugin));
  MGT_CHECK(status.ok(), status.message());
  return *plugin;
}

// Options by key; keys that are left out take the schema's default.
class TestConfig {
 public:
  using Value = std::variant<int64_t, double, std::string>;
  TestConfig(const mgt_plugin& plugin, std::map<std::string, Value> values)
      : values_(std::move(values)) {
    for (uint64_t i = 0; i < plugin.option_count; ++i) {
      const mgt_option& o = plugin.options[i];
      types_[std::string(from_abi(o.key))] = o.type;
      const std::string text(from_abi(o.default_value));
      if (text.empty() || values_.contains(std::string(from_abi(o.key)))) continue;
      auto& value = values_[std::string(from_abi(o.key))];
      if (o.type == MGT_OPTION_FLOAT) {
        value = std::strtod(text.c_str(), nullptr);
      } else if (o.type == MGT_OPTION_INT) {
        value = static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10));
      } else if (o.type == MGT_OPTION_BOOL) {
        value = int64_t{text == "true"};
      } else {
        value = text.size() >= 2 ? text.substr(1, text.size() - 2) : text;
      }
    }
    MGT_INIT(&table_);
    table_.context = this;
    table_.get = [](const void* context, mgt_str key, mgt_config_value* out) {
      return guarded(
          [&] { static_cast<const TestConfig*>(context)->get(std::string(from_abi(key)), out); });
    };
  }
  TestConfig(const TestConfig&) = delete;
  TestConfig& operator=(const TestConfig&) = delete;
  const mgt_config* table() const { return &table_; }

 private:
  void get(const std::string& key, mgt_config_value* out) const {
    const auto it = values_.find(key);
    if (it == values_.end()) throw StatusError(Status(Code::not_found, key));
    out->type = types_.at(key);
    if (const auto* i = std::get_if<int64_t>(&it->second)) {
      out->i = *i;
      out->f = static_cast<double>(*i);
    } else if (const auto* f = std::get_if<double>(&it->second)) {
      out->f = *f;
    } else {
      out->s = to_abi(std::get<std::string>(it->second));
    }
  }
  std::map<std::string, Value> values_;
  std::map<std::string, mgt_option_type> types_;
  mgt_config table_{};
};

}  // namespace megatron::test
