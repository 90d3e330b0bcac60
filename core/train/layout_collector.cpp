#include "train/layout_collector.hpp"

#include <algorithm>

#include "launch/environment.hpp"

namespace megatron::train {
namespace {

constexpr std::string_view kDataAxis = "data";

LayoutCollector& self(void* context) { return *static_cast<LayoutCollector*>(context); }

}  // namespace

LayoutCollector::LayoutCollector() {
  MGT_INIT(&table_);
  table_.context = this;
  table_.mesh_axis = [](void* c, mgt_str name, uint32_t size) {
    return guarded([&] { return self(c).mesh_axis(from_abi(name), size); });
  };
  table_.map_axis = [](void* c, mgt_str logical, mgt_str mesh, mgt_index_map_kind map,
                       uint32_t flags) {
    return guarded([&] { return self(c).map_axis(from_abi(logical), from_abi(mesh), map, flags); });
  };
  table_.shard_states = [](void* c, mgt_str mesh, uint32_t stage) {
    return guarded([&] { return self(c).shard_states(from_abi(mesh), stage); });
  };
  table_.attention = [](void* c, mgt_str mesh, mgt_attention_method method) {
    return guarded([&] { return self(c).attention(from_abi(mesh), method); });
  };
  table_.pipeline = [](void* c, mgt_str mesh, const mgt_pipeline_desc* desc) {
    return guarded([&] { return self(c).pipeline(from_abi(mesh), *desc); });
  };
}

Status LayoutCollector::mesh_axis(std::string_view name, uint32_t size) {
  for (const auto& a : layout_.axes) {
    if (a.name == name) {
      return invalid_argument(text("two parallel plugins make the mesh axis '", name, "'"),
                              "a mesh has one axis of a name",
                              "name each strategy once in [[parallel]]");
    }
  }
  layout_.axes.push_back({std::string(name), size});
  return {};
}

Status LayoutCollector::known_axis(std::string_view mesh) const {
  const bool known = std::any_of(layout_.axes.begin(), layout_.axes.end(),
                                 [&](const passes::MeshAxis& a) { return a.name == mesh; });
  return known ? Status()
               : invalid_argument(
                     text("there is no mesh axis '", mesh, "'"),
                     "the parallel plugin refers to an axis that no plugin has made before",
                     "report it to the plugin's author");
}

Status LayoutCollector::map_axis(std::string_view logical, std::string_view mesh,
                                 mgt_index_map_kind map, uint32_t flags) {
  MGT_RETURN_IF_ERROR(known_axis(mesh));
  if (map != MGT_MAP_CONTIGUOUS && map != MGT_MAP_BALANCED)
    return Status::error(Code::unimplemented, text("unknown index map number ", map),
                         "this host knows 1 (contiguous) and 2 (balanced)",
                         "run a host of the plugin's sdk, or report it to the plugin's author");
  layout_.mappings.push_back({.logical = std::string(logical),
                              .mesh = std::string(mesh),
                              .cut = static_cast<Cut>(map),
                              .secondary = (flags & MGT_MAPPING_SECONDARY) != 0,
                              .instances = (flags & MGT_MAPPING_INSTANCES) != 0,
                              .padded = (flags & MGT_MAPPING_PADDED) != 0});
  return {};
}

Status LayoutCollector::shard_states(std::string_view mesh, uint32_t stage) {
  MGT_RETURN_IF_ERROR(known_axis(mesh));
  if (stage > 3) {
    return invalid_argument(text("there is no ZeRO stage ", stage), "the stages are 0 to 3",
                            "report it to the plugin's author");
  }
  layout_.zero_axis = mesh;
  layout_.zero_stage = static_cast<int>(stage);
  return {};
}

Status LayoutCollector::attention(std::string_view mesh, mgt_attention_method method) {
  MGT_RETURN_IF_ERROR(known_axis(mesh));
  switch (method) {
    case MGT_ATTENTION_ALL_GATHER:
      return {};  // what labels say by themselves
    case MGT_ATTENTION_RING:
      layout_.ring_axis = mesh;
      return {};
    case MGT_ATTENTION_ALL_TO_ALL:
      layout_.all_to_all_axis = mesh;
      return {};
    default:
      return Status::error(Code::unimplemented, text("unknown attention method number ", method),
                           "this host knows 1 (all-gather), 2 (ring) and 3 (all-to-all)",
                           "run a host of the plugin's sdk, or report it to the plugin's author");
  }
}

Status LayoutCollector::pipeline(std::string_view mesh, const mgt_pipeline_desc& d) {
  MGT_RETURN_IF_ERROR(known_axis(mesh));
  layout_.pipeline_axis = mesh;
  auto& p = layout_.pipeline;
  p.schedule = from_abi(d.schedule);
  p.virtual_stages = d.virtual_stages;
  p.first_layers = d.first_layers;
  p.last_layers = d.last_layers;
  p.embedding_counts = (d.flags & MGT_PIPELINE_EMBEDDING_COUNTS) != 0;
  p.loss_counts = (d.flags & MGT_PIPELINE_LOSS_COUNTS) != 0;
  p.layout = from_abi(d.layout);
  return {};
}

Result<passes::Layout> LayoutCollector::finish(std::optional<int64_t> ranks) const {
  passes::Layout layout = layout_;
  const auto named = [&](std::string_view name) {
    return std::find_if(layout.axes.begin(), layout.axes.end(),
                        [&](const passes::MeshAxis& a) { return a.name == name; });
  };
  if (named(kDataAxis) == layout.axes.end()) {
    layout.axes.insert(layout.axes.begin(), {std::string(kDataAxis), 0});
    layout.mappings.push_back(
        {.logical = "batch", .mesh = std::string(kDataAxis), .instances = true});
  }
  passes::MeshAxis* open = nullptr;
  int64_t fixed = 1;
  std::string product;
  for (auto& a : layout.axes) {
    if (a.size != 0) {
      fixed *= a.size;
      product += text(product.empty() ? "" : " · ", a.name, " ", a.size);
      if (fixed > launch::kMaxRanks)
        return invalid_argument(text("the layout needs more than ", launch::kMaxRanks, " ranks"),
                                text("[[parallel]] asks for ", product),
                                "lower the sizes in [[parallel]]");
      continue;
    }
    if (open != nullptr) {
      return invalid_argument(text("the sizes of the mesh axes '", open->name, "' and '", a.name,
                                   "' are both left open"),
                              "one axis at most can take what the others leave",
                              "give one of them a size");
    }
    open = &a;
  }
  if (open != nullptr) {
    open->size = ranks.value_or(fixed) / fixed;
    if (open->size == 0) open->size = 1;
  }
  if (ranks && layout.world_size() != *ranks) {
    return invalid_argument(text("the run has ", *ranks, " ranks, the layout needs ",
                                 open != nullptr ? "a multiple of " : "", fixed),
                            text("[[parallel]] asks for ", product),
                            "start another number of ranks, or change the sizes in [[parallel]]");
  }
  return layout;
}

}  // namespace megatron::train
