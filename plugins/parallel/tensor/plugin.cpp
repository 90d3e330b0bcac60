// Tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053): heads, MLP width and vocabulary are
// cut; with sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198) the residual stream is
// cut along the sequence.
#include "megatron/parallel.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a plugin of one file

constexpr std::string_view kAxis = "tensor";

class TensorParallel final : public Parallel {
 public:
  explicit TensorParallel(const Config& config)
      : size_(static_cast<uint32_t>(config.integer("size"))),
        sequence_(config.boolean("sequence_parallel")) {}

  void apply(const LayoutBuilder& layout) override {
    layout.mesh_axis(kAxis, size_);
    layout.map_axis("heads", kAxis);
    layout.map_axis("kv_heads", kAxis);
    layout.map_axis("mlp", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_PADDED);
    layout.map_axis("vocab", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_PADDED);
    if (sequence_) layout.map_axis("seq", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_SECONDARY);
  }

 private:
  uint32_t size_;
  bool sequence_;
};

constexpr Option kOptions[] = {
    option("size", MGT_OPTION_INT, "", "ranks that share each layer")
        .required()
        .at_least(1)
        .at_most(kMaxMeshAxisSize),
    option("sequence_parallel", MGT_OPTION_BOOL, "false",
           "cut what lies between the layers' products along the sequence"),
};

}  // namespace

MEGATRON_PLUGIN(mgt_parallel, "0.1.0",
                .description = "Tensor parallelism, optionally with sequence parallelism.",
                .options = kOptions, .table = megatron::parallel_table<TensorParallel>());
