// One rank's part of a run: the programs of its stage compiled for a device, in one arena with its
// weights, gradients and optimizer states.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "megatron/device/device_view.hpp"
#include "passes/layout.hpp"
#include "passes/local_runs.hpp"
#include "runtime/collectives.hpp"
#include "runtime/executable.hpp"
#include "train/model_programs.hpp"

namespace megatron::train {

struct EngineRequest {
  ModelView model;
  OptimizerView optimizer;  // null table: no training
  DeviceView device;
  passes::Layout layout;
  int64_t rank = 0;
  runtime::Collectives* collectives = nullptr;  // null: one rank
  int64_t micro_batch_size = 1;
  uint64_t seed = 1234;
  bool train = true;
  bool evaluate = true;
  // Compiles "logits" for one sequence of this many tokens; 0 = no.
  int64_t logits_length = 0;
};

// A tensor that lives across steps, as checkpoints see it.
struct PersistentTensor {
  std::string name;
  graph::Type logical;
  graph::Type local;
  passes::Placement placement;
  std::vector<passes::Run> runs;
  void* home = nullptr;
};

// Memory of a rank by what it is for, in bytes.
struct MemoryReport {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_states = 0;
  int64_t scratch = 0;  // activations and workspaces of the largest program
  int64_t total() const { return parameters + gradients + optimizer_states + scratch; }
};

// Sum and count of a loss term over one micro-batch, this rank's share.
struct LossValue {
  std::string name;
  double sum = 0;
  double count = 0;
  double weight = 1;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineRequest& request);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // ---- what the programs read, by field name and logical type; the feed offers these.
  const std::vector<graph::Value>& inputs() const { return inputs_; }
  // Buffer of field `name` for one micro-batch of the logical batch.
  using Feed = std::function<const void*(std::string_view name)>;

  Status initialize_parameters();

  // ---- training
  // How many positions of this micro-batch each loss term counts: known from the inputs alone, so
  // that the gradient seeds are right before the first backward.
  Status count_losses(const Feed& feed, std::vector<double>& counts);
  // seeds: of each loss term, 1 / (count over the global batch). first: gradients are overwritten.
  Status forward_backward(const Feed& feed, std::span<const double> seeds, bool first,
                          uint64_t step, int64_t sample_offset, std::vector<LossValue>& losses);
  Result<double> gradient_norm();
  Status update(double clip_coefficient, double lr, double weight_decay, int64_t step);
  Status evaluate(const Feed& feed, std::vector<LossValue>& losses);

  // Logits [tokens, vocab] of one sequence.
  Status logits(std::span<const int32_t> tokens, std::vector<float>& out);

  // ---- state
  const std::vector<PersistentTensor>& parameters() const { return parameters_; }
  const std::vector<PersistentTensor>& optimizer_states() const { return optimizer_states_; }
  const std::vector<PersistentTensor>& gradients() const { return gradients_; }
  // Copies the whole local tensor.
  Status download(const PersistentTensor& tensor, std::span<float> local) const;
  Status upload(const PersistentTensor& tensor, std::span<const float> local) const;

  MemoryReport memory() const { return memory_; }
  int64_t parameter_count() const;  // logical, of the whole model
  double train_flops() const;       // of one micro-batch, forward and backward
  runtime::Executable* train_executable() { return train_.get(); }
  runtime::Executable* update_executable() { return update_.get(); }
  const std::vector<std::string>& loss_names() const { return loss_names_; }
  double loss_weight(size_t term) const { return loss_weights_[term]; }

 private:
  explicit Engine(const EngineRequest& request) : request_(request) {}
  Status build();
  Status build_training(const graph::Program& loss);
  Status build_counts(const graph::Program& loss);
  Result<std::unique_ptr<runtime::Executable>> compile(const graph::Program& logical,
                                                       bool whole_outputs);
  void remember(const graph::Program& logical, const graph::Program& local,
                const std::map<std::string, passes::Placement, std::less<>>& placements);
  Status allocate();
  Status run(runtime::Executable& program, const Feed& feed, const mgt_rng_key& rng);
  Status collect_losses(const runtime::Executable& program, std::vector<LossValue>& losses) const;

  EngineRequest request_;
  std::vector<int64_t> coordinates_;
  std::map<std::string, passes::Placement, std::less<>> placements_;
  std::unique_ptr<runtime::Executable> counts_, train_, norm_, update_, eval_, logits_;
  std::vector<graph::Value> inputs_;
  std::vector<std::string> loss_names_;
  std::vector<double> loss_weights_;
  std::vector<graph::Initializer> initializers_;  // of parameters_
  std::vector<double> initial_states_;            // of optimizer_states_
  std::vector<PersistentTensor> parameters_, gradients_, optimizer_states_;
  MemoryReport memory_;
  void* arena_ = nullptr;
};

}  // namespace megatron::train
