// Context parallelism: the sequence is cut in 2·size chunks, of which each rank holds an early and
// a late one, so that a causal mask costs all ranks the same.
#include "megatron/parallel.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a plugin of one file

constexpr std::string_view kAxis = "context";

mgt_attention_method method_of(const std::string& name) {
  if (name == "ring") return MGT_ATTENTION_RING;
  return name == "all_gather" ? MGT_ATTENTION_ALL_GATHER : MGT_ATTENTION_ALL_TO_ALL;
}

class ContextParallel final : public Parallel {
 public:
  explicit ContextParallel(const Config& config)
      : size_(static_cast<uint32_t>(config.integer("size"))),
        method_(method_of(config.string("method"))) {}

  void apply(const LayoutBuilder& layout) override {
    layout.mesh_axis(kAxis, size_);
    layout.map_axis("seq", kAxis, MGT_MAP_BALANCED);
    if (method_ == MGT_ATTENTION_ALL_TO_ALL) {
      layout.map_axis("heads", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_SECONDARY);
      layout.map_axis("kv_heads", kAxis, MGT_MAP_CONTIGUOUS, MGT_MAPPING_SECONDARY);
    }
    layout.attention(kAxis, method_);
  }

 private:
  uint32_t size_;
  mgt_attention_method method_;
};

constexpr mgt_str kMethods[] = {{"ring", 4}, {"all_gather", 10}, {"all_to_all", 10}};
constexpr Option kOptions[] = {
    option("size", MGT_OPTION_INT, "", "ranks that share each sequence")
        .required()
        .at_least(1)
        .at_most(kMaxMeshAxisSize),
    option("method", MGT_OPTION_STRING, "\"ring\"",
           "how attention reaches keys and values of other ranks")
        .one_of(kMethods),
};

}  // namespace

MEGATRON_PLUGIN(
    mgt_parallel, "0.1.0",
    .description = "Context parallelism: ring, all-gather or all-to-all (Ulysses) attention.",
    .options = kOptions, .table = megatron::parallel_table<ContextParallel>());
