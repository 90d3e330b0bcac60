// Collects what parallel plugins say about a run's layout.
#pragma once

#include <optional>
#include <string>

#include "megatron/abi/parallel.h"
#include "passes/layout.hpp"

namespace megatron::train {

class LayoutCollector {
 public:
  LayoutCollector();
  LayoutCollector(const LayoutCollector&) = delete;
  LayoutCollector& operator=(const LayoutCollector&) = delete;
  // What a plugin's `apply` gets; valid while the collector lives.
  const mgt_layout* table() const { return &table_; }

  // The layout of a world of that many ranks: an axis of size 0 takes what the others leave. Where
  // no plugin made a data axis, one is added, so that the ranks that are left over compute samples
  // of their own. `ranks` empty: as many as the axes ask for.
  Result<passes::Layout> finish(std::optional<int64_t> ranks) const;

 private:
  Status mesh_axis(std::string_view name, uint32_t size);
  Status map_axis(std::string_view logical, std::string_view mesh, mgt_index_map_kind map,
                  uint32_t flags);
  Status shard_states(std::string_view mesh, uint32_t stage);
  Status attention(std::string_view mesh, mgt_attention_method method);
  Status pipeline(std::string_view mesh, const mgt_pipeline_desc& desc);
  Status known_axis(std::string_view mesh) const;

  mgt_layout table_{};
  passes::Layout layout_;
};

}  // namespace megatron::train
