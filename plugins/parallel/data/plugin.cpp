// Data parallelism: each rank computes micro-batches of its own. ZeRO (Rajbhandari et al. 2020,
// arXiv:1910.02054) cuts optimizer states (1), gradients (2) and weights (3) over the same ranks.
#include "megatron/parallel.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a plugin of one file

constexpr std::string_view kAxis = "data";

class DataParallel final : public Parallel {
 public:
  explicit DataParallel(const Config& config)
      : size_(static_cast<uint32_t>(config.integer("size"))),
        zero_stage_(static_cast<uint32_t>(config.integer("zero_stage"))) {}

  void apply(const LayoutBuilder& layout) override {
    layout.mesh_axis(kAxis, size_);
    layout.map_axis("batch", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_INSTANCES);
    if (zero_stage_ > 0) layout.shard_states(kAxis, zero_stage_);
  }

 private:
  uint32_t size_;
  uint32_t zero_stage_;
};

constexpr Option kOptions[] = {
    option("size", MGT_OPTION_INT, "0",
           "ranks with micro-batches of their own; 0 = what the other axes leave of the world")
        .at_least(0)
        .at_most(kMaxMeshAxisSize),
    option("zero_stage", MGT_OPTION_INT, "0",
           "what is cut over the ranks: 1 optimizer states, 2 gradients too, 3 weights too")
        .at_least(0)
        .at_most(3),
};

}  // namespace

MEGATRON_PLUGIN(mgt_parallel, "0.1.0", .description = "Data parallelism with ZeRO stages 0 to 3.",
                .options = kOptions, .table = megatron::parallel_table<DataParallel>());
