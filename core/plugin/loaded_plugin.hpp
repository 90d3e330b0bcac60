// A plugin that is in this process and was checked: typed access to what it offers. A view; copy it
// freely, it is valid until the process ends.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "megatron/abi/comm.h"
#include "megatron/abi/dataset.h"
#include "megatron/abi/device.h"
#include "megatron/abi/model.h"
#include "megatron/abi/optimizer.h"
#include "megatron/abi/parallel.h"
#include "megatron/abi/plugin.h"
#include "megatron/abi/tokenizer.h"
#include "megatron/status.hpp"

namespace megatron::plugin {

template <class Table>
inline constexpr mgt_kind kKindOfTable = 0;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_model> = MGT_KIND_MODEL;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_parallel> = MGT_KIND_PARALLEL;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_optimizer> = MGT_KIND_OPTIMIZER;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_dataset> = MGT_KIND_DATASET;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_tokenizer> = MGT_KIND_TOKENIZER;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_comm> = MGT_KIND_COMM;
template <>
inline constexpr mgt_kind kKindOfTable<mgt_device> = MGT_KIND_DEVICE;

class LoadedPlugin {
 public:
  // `plugin` was accepted by check_plugin.
  LoadedPlugin(const mgt_plugin* plugin, const mgt_host* host, std::string path)
      : plugin_(plugin), host_(host), path_(std::move(path)) {}

  mgt_kind kind() const { return plugin_->kind; }
  std::string_view name() const { return from_abi(plugin_->name); }
  std::string_view version() const { return from_abi(plugin_->version); }
  std::string_view description() const { return from_abi(plugin_->description); }
  const std::string& path() const { return path_; }
  // The table it was given; `create` wants it again.
  const mgt_host* host() const { return host_; }

  // table<mgt_model>() of a model, …; another type is a bug of the caller.
  template <class Table>
  const Table& table() const {
    static_assert(kKindOfTable<Table> != 0, "not a table of a plugin kind");
    MGT_CHECK(kind() == kKindOfTable<Table>, path_);
    return *static_cast<const Table*>(plugin_->table);
  }

  // The schema of the plugin's section, for config::Schema::from_abi. Entries are `struct_size`
  // bytes apart.
  const mgt_option* options() const { return plugin_->options; }
  uint64_t option_count() const { return plugin_->option_count; }

 private:
  const mgt_plugin* plugin_;
  const mgt_host* host_;
  std::string path_;
};

}  // namespace megatron::plugin
