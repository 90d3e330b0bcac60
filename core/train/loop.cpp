#include "train/loop.hpp"

#include <chrono>
#include <cmath>
#include <map>

namespace megatron::train {
namespace {

using Clock = std::chrono::steady_clock;

class Loop {
 public:
  Loop(Engine& engine, DataFeed& train, DataFeed* valid, const LoopOptions& options,
       LoopState state, Reporter& reporter, const LoopHooks& hooks)
      : engine_(engine),
        train_(train),
        valid_(valid),
        o_(options),
        state_(state),
        reporter_(reporter),
        hooks_(hooks) {}

  Result<LoopResult> run() {
    LoopResult result;
    bool saved = false;
    bool evaluated = false;
    if (state_.iteration == 0) MGT_RETURN_IF_ERROR(evaluate(result));  // where it starts from
    while (state_.iteration < o_.train_iters && !stopping()) {
      MGT_RETURN_IF_ERROR(step());
      evaluated = o_.eval_interval > 0 && state_.iteration % o_.eval_interval == 0;
      if (evaluated) MGT_RETURN_IF_ERROR(evaluate(result));
      saved = o_.save_interval > 0 && state_.iteration % o_.save_interval == 0;
      if (saved) MGT_RETURN_IF_ERROR(save());
    }
    result.stopped = state_.iteration < o_.train_iters;
    if (!evaluated && !result.stopped) MGT_RETURN_IF_ERROR(evaluate(result));
    if (!saved && state_.iteration > 0) MGT_RETURN_IF_ERROR(save());
    reporter_.finish();
    result.state = state_;
    return result;
  }

 private:
  bool stopping() const {
    return hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed);
  }

  // The gradient of each loss term's mean over the global batch: weight / count, zero where nothing
  // counts.
  Result<std::vector<double>> seeds(const std::vector<MicroBatch>& batches,
                                    std::vector<double>& counts) {
    counts.assign(engine_.loss_names().size(), 0.0);
    std::vector<double> one;
    for (const auto& batch : batches) {
      MGT_RETURN_IF_ERROR(engine_.count_losses(feed(batch), one));
      for (size_t i = 0; i < one.size(); ++i) counts[i] += one[i];
    }
    std::vector<double> out(counts.size());
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = counts[i] > 0 ? engine_.loss_weight(i) / counts[i] : 0.0;
    return out;
  }

  static Engine::Feed feed(const MicroBatch& batch) {
    return [&batch](std::string_view name) { return batch.field(name); };
  }

  Status step() {
    const auto start = Clock::now();
    const int64_t iteration = state_.iteration + 1;
    MGT_ASSIGN_OR_RETURN(const auto* batches, train_.next(state_.consumed_samples));
    std::vector<double> counts;
    MGT_ASSIGN_OR_RETURN(const auto grad_seeds, seeds(*batches, counts));
    std::vector<double> sums(counts.size(), 0.0);
    int64_t sample = 0;  // within the global batch
    for (size_t m = 0; m < batches->size(); ++m) {
      MGT_RETURN_IF_ERROR(engine_.forward_backward(feed((*batches)[m]), grad_seeds, m == 0,
                                                   static_cast<uint64_t>(iteration), sample,
                                                   losses_));
      for (size_t i = 0; i < losses_.size(); ++i) sums[i] += losses_[i].sum;
      sample += o_.micro_batch_size;
    }
    IterationRecord record;
    for (size_t i = 0; i < sums.size(); ++i) {
      record.losses[engine_.loss_names()[i]] = counts[i] > 0 ? sums[i] / counts[i] : 0.0;
    }
    MGT_ASSIGN_OR_RETURN(record.grad_norm, engine_.gradient_norm());
    MGT_RETURN_IF_ERROR(check_finite(iteration, record));
    record.learning_rate = o_.lr.at(state_.consumed_samples);
    const double coefficient =
        o_.clip_grad > 0 ? std::min(1.0, o_.clip_grad / (record.grad_norm + 1e-6)) : 1.0;
    MGT_RETURN_IF_ERROR(engine_.update(coefficient, record.learning_rate,
                                       o_.weight_decay.at(state_.consumed_samples), iteration));
    state_.iteration = iteration;
    state_.consumed_samples += o_.global_batch_size;
    record.iteration = iteration;
    record.consumed_samples = state_.consumed_samples;
    record.global_batch_size = o_.global_batch_size;
    record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return reporter_.iteration(record);
  }

  Status check_finite(int64_t iteration, const IterationRecord& record) const {
    for (const auto& [name, value] : record.losses) {
      if (!std::isfinite(value))
        return not_finite(iteration, text("the ", name, " loss is ", value));
    }
    if (!std::isfinite(record.grad_norm))
      return not_finite(iteration, text("the gradient norm is ", record.grad_norm));
    return {};
  }
  Status not_finite(int64_t iteration, std::string_view cause) const {
    return Status::error(
        Code::failed_precondition,
        text("iteration ", iteration, " is not finite; the weights were not updated"), cause,
        "lower optimizer.lr or raise its warm-up, and resume from the last checkpoint");
  }

  Status evaluate(LoopResult& result) {
    if (valid_ == nullptr || o_.eval_iters == 0) return {};
    std::vector<double> sums(engine_.loss_names().size(), 0.0);
    std::vector<double> counts(sums.size(), 0.0);
    for (int64_t i = 0; i < o_.eval_iters; ++i) {
      MGT_ASSIGN_OR_RETURN(const auto* batches, valid_->next(i * o_.global_batch_size));
      for (const auto& batch : *batches) {
        MGT_RETURN_IF_ERROR(engine_.evaluate(feed(batch), losses_));
        for (size_t k = 0; k < losses_.size(); ++k) {
          sums[k] += losses_[k].sum;
          counts[k] += losses_[k].count;
        }
      }
    }
    for (size_t k = 0; k < sums.size(); ++k) {
      result.validation[engine_.loss_names()[k]] = counts[k] > 0 ? sums[k] / counts[k] : 0.0;
    }
    return reporter_.validation("validation", state_.iteration, result.validation);
  }

  Status save() { return hooks_.save ? hooks_.save(state_) : Status(); }

  Engine& engine_;
  DataFeed& train_;
  DataFeed* valid_;
  const LoopOptions& o_;
  LoopState state_;
  Reporter& reporter_;
  const LoopHooks& hooks_;
  std::vector<LossValue> losses_;
};

}  // namespace

Result<LoopResult> run_loop(Engine& engine, DataFeed& train, DataFeed* valid,
                            const LoopOptions& options, LoopState state, Reporter& reporter,
                            const LoopHooks& hooks) {
  return Loop(engine, train, valid, options, state, reporter, hooks).run();
}

}  // namespace megatron::train
