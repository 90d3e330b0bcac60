// Pipeline parallelism: blocks of layers on different ranks, micro-batches in flight between them.
#include "megatron/parallel.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a plugin of one file

constexpr std::string_view kAxis = "pipeline";

class PipelineParallel final : public Parallel {
 public:
  explicit PipelineParallel(const Config& config)
      : size_(static_cast<uint32_t>(config.integer("size"))),
        schedule_(config.string("schedule")),
        layout_(config.string("pipeline_model_parallel_layout")) {
    MGT_INIT(&desc_);
    desc_.virtual_stages = static_cast<uint32_t>(config.integer("virtual_stages"));
    desc_.first_layers = config.integer("num_layers_in_first_pipeline_stage");
    desc_.last_layers = config.integer("num_layers_in_last_pipeline_stage");
    if (config.boolean("account_for_embedding_in_pipeline_split"))
      desc_.flags |= MGT_PIPELINE_EMBEDDING_COUNTS;
    if (config.boolean("account_for_loss_in_pipeline_split"))
      desc_.flags |= MGT_PIPELINE_LOSS_COUNTS;
  }

  void apply(const LayoutBuilder& layout) override {
    desc_.schedule = to_abi(schedule_);
    desc_.layout = to_abi(layout_);
    layout.mesh_axis(kAxis, size_);
    layout.pipeline(kAxis, desc_);
  }

 private:
  uint32_t size_;
  std::string schedule_;
  std::string layout_;
  mgt_pipeline_desc desc_;
};

constexpr mgt_str kSchedules[] = {
    {"1f1b", 4}, {"gpipe", 5}, {"interleaved", 11}, {"zero_bubble", 11}};
constexpr Option kOptions[] = {
    option("size", MGT_OPTION_INT, "", "ranks that hold consecutive layers")
        .required()
        .at_least(1)
        .at_most(kMaxMeshAxisSize),
    option("schedule", MGT_OPTION_STRING, "\"1f1b\"", "order of forward and backward passes")
        .one_of(kSchedules),
    option("virtual_stages", MGT_OPTION_INT, "1",
           "chunks of layers on each rank; more than 1 needs schedule interleaved")
        .at_least(1)
        .at_most(kMaxMeshAxisSize),
    option("num_layers_in_first_pipeline_stage", MGT_OPTION_INT, "0", "0 = dealt evenly")
        .at_least(0),
    option("num_layers_in_last_pipeline_stage", MGT_OPTION_INT, "0", "0 = dealt evenly")
        .at_least(0),
    option("account_for_embedding_in_pipeline_split", MGT_OPTION_BOOL, "false",
           "the embedding counts as one layer"),
    option("account_for_loss_in_pipeline_split", MGT_OPTION_BOOL, "false",
           "output layer and loss count as one layer"),
    option("pipeline_model_parallel_layout", MGT_OPTION_STRING, "\"\"",
           "stages written out, e.g. \"Ett|ttt|ttL\"; E embedding, t layer, L loss; (…)*n repeats"),
};

}  // namespace

MEGATRON_PLUGIN(
    mgt_parallel, "0.1.0",
    .description = "Pipeline parallelism: GPipe, 1F1B, interleaved and zero-bubble schedules.",
    .options = kOptions, .table = megatron::parallel_table<PipelineParallel>());
