// One rank's part of a run: its programs compiled for a device, in one arena with its weights,
// gradients, optimizer states and the activations that are in flight.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/device/device_view.hpp"
#include "runtime/collectives.hpp"
#include "runtime/executable.hpp"
#include "train/mesh_sums.hpp"
#include "train/rank_programs.hpp"

namespace megatron::train {

struct EngineRequest : RankRequest {
  DeviceView device;
  runtime::Collectives* collectives = nullptr;  // null: one rank
  uint64_t seed = 1234;
};

// Memory of a rank by what it is for, in bytes.
struct MemoryReport {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer_states = 0;
  int64_t activations = 0;  // of micro-batches in flight between passes of a pipeline stage
  int64_t scratch = 0;      // activations and workspaces within the largest program
  int64_t total() const {
    return parameters + gradients + optimizer_states + activations + scratch;
  }
};

// Sum and count of a loss term over the global batch.
struct LossValue {
  std::string name;
  double sum = 0;
  double count = 0;
  double mean() const { return count > 0 ? sum / count : 0.0; }
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create(const EngineRequest& request);
  // Compiled, without memory and without other ranks: what `programs`, `memory` and `step_work`
  // tell is what a run would have.
  static Result<std::unique_ptr<Engine>> plan(const EngineRequest& request);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // ---- what the programs read, by field name and logical type; a feed offers these.
  const std::vector<Field>& inputs() const { return programs_.inputs; }
  // Buffer of a field for micro-batch `m` of this data rank, at its logical type.
  using Feed = std::function<const void*(int64_t m, std::string_view field)>;

  Status initialize_parameters();

  // ---- training. Every rank makes the same calls.
  // Forward and backward pass of all micro-batches of step `step`; gradients are those of the mean
  // over the global batch's counted positions. `losses`: of the global batch.
  Status forward_backward(const Feed& feed, uint64_t step, std::vector<LossValue>& losses);
  // Reduces the gradients over the ranks; their global norm.
  Result<double> reduce_gradients();
  Status update(double clip_coefficient, double lr, double weight_decay, int64_t step);
  // Whether any rank says so; every rank gets the same answer.
  Result<bool> any_rank(std::string_view question, bool answer);
  // Of this step's micro-batches, without dropout; adds to `losses`.
  Status evaluate(const Feed& feed, std::vector<LossValue>& losses);

  // Logits [tokens, vocab] of one sequence.
  Status logits(std::span<const int32_t> tokens, std::vector<float>& out);

  // ---- state
  const RankPrograms& programs() const { return programs_; }
  const std::vector<PersistentTensor>& parameters() const { return programs_.parameters; }
  const std::vector<PersistentTensor>& optimizer_states() const {
    return programs_.optimizer_states;
  }
  // After reduce_gradients, until the next step.
  const std::vector<PersistentTensor>& gradients() const { return programs_.reduced; }
  // Copies the whole local tensor.
  Status download(const PersistentTensor& tensor, std::span<float> local) const;
  Status upload(const PersistentTensor& tensor, std::span<const float> local) const;

  MemoryReport memory() const { return memory_; }
  // What a training step runs, and how often; in no order.
  struct Work {
    runtime::Executable* executable;
    int64_t runs;
  };
  std::vector<Work> step_work() const;

 private:
  // A compiled program and how its inputs are cut from the fields; null where the rank has none.
  struct Unit {
    std::unique_ptr<runtime::Executable> executable;
    struct Input {
      graph::ValueId value;
      std::string field;
      std::vector<passes::Run> runs;  // empty: the whole field
      size_t element_size;
    };
    std::vector<Input> inputs;
    explicit operator bool() const { return executable != nullptr; }
  };
  struct Chunk {
    Unit forward, backward, weight, evaluate;
    int64_t slots = 1;  // micro-batches in flight: bindings of the three passes
  };

  explicit Engine(const EngineRequest& request);
  Status compile();
  Result<Unit> compile(const graph::Program& program) const;
  void measure();
  Status allocate();
  void each_unit(const std::function<void(const Unit&)>& body) const;

  Status run(Unit& unit, const Feed& feed, int64_t m, uint64_t step, size_t binding);
  Status count_losses(const Feed& feed, std::vector<double>& totals);
  Status run_action(const PipelineAction& action, const Feed& feed, uint64_t step);
  Status collect_losses(const Unit& unit, int64_t m, size_t binding);
  Status sum_losses(std::vector<LossValue>& losses);
  int64_t global_micro_batch(int64_t m) const { return first_micro_batch_ + m; }

  EngineRequest request_;
  RankPrograms programs_;
  std::string instance_axis_;
  int64_t first_micro_batch_ = 0;  // of this data rank, in the global batch
  std::vector<Chunk> chunks_;
  Unit counts_, reduce_, update_, logits_;
  MeshSums sums_;
  MemoryReport memory_;
  void* arena_ = nullptr;
  // Reused by every step: a step allocates nothing.
  std::vector<char> staging_;
  std::vector<double> numbers_, gathered_, totals_, norms_;
  std::vector<bool> adds_;
  std::vector<std::string> seed_scalars_;  // of each loss term
  std::vector<size_t> norm_index_;         // of each norm term, in the model's order of parameters
};

}  // namespace megatron::train
