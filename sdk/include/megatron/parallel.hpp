// Author's side of plugin kind `parallel`: which logical axis lies on which mesh axis. The
// partitioner derives every collective from it.
#pragma once

#include <cstdint>
#include <string_view>

#include "megatron/abi/parallel.h"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_parallel, MGT_KIND_PARALLEL);

// Largest size of a mesh axis that an option may ask for: at_most(kMaxMeshAxisSize).
inline constexpr double kMaxMeshAxisSize = 1 << 20;

// What a parallel plugin adds to a run's layout; see abi/parallel.h. Throws StatusError.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(const mgt_layout* table) : table_(table) {}
  void mesh_axis(std::string_view name, uint32_t size) const {
    check(table_->mesh_axis(table_->context, to_abi(name), size));
  }
  void map_axis(std::string_view logical, std::string_view mesh,
                mgt_index_map_kind map = MGT_MAP_CONTIGUOUS, uint32_t flags = 0) const {
    check(table_->map_axis(table_->context, to_abi(logical), to_abi(mesh), map, flags));
  }
  void shard_states(std::string_view mesh, uint32_t stage) const {
    check(table_->shard_states(table_->context, to_abi(mesh), stage));
  }
  void attention(std::string_view mesh, mgt_attention_method method) const {
    check(table_->attention(table_->context, to_abi(mesh), method));
  }
  // `desc` as after MGT_INIT, with what differs set.
  void pipeline(std::string_view mesh, const mgt_pipeline_desc& desc) const {
    check(table_->pipeline(table_->context, to_abi(mesh), &desc));
  }

 private:
  static void check(mgt_status* status) { throw_if_error(from_abi(status, "the host")); }
  const mgt_layout* table_;
};

class Parallel {
 public:
  virtual ~Parallel() = default;
  virtual void apply(const LayoutBuilder& layout) = 0;
};

// Table for `T : Parallel` with a constructor T(const Config&).
template <class T>
const mgt_parallel* parallel_table() {
  static const mgt_parallel table{
      sizeof(mgt_parallel), 0,
      [](const mgt_host*, const mgt_config* config, void** self) {
        return guarded([&] { *self = new T(Config(config)); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](void* self, const mgt_layout* layout) {
        return guarded([&] { static_cast<T*>(self)->apply(LayoutBuilder(layout)); });
      }};
  return &table;
}

}  // namespace megatron
