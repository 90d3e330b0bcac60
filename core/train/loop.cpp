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
    while (state_.iteration < o_.train_iters) {
      MGT_ASSIGN_OR_RETURN(const bool stop, engine_.any_rank("stopping", stopping()));
      if (stop) break;
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

  static Engine::Feed feed(const std::vector<MicroBatch>& batches) {
    return [&batches](int64_t m, std::string_view field) {
      return batches[static_cast<size_t>(m)].field(field);
    };
  }

  Status step() {
    const auto start = Clock::now();
    const int64_t iteration = state_.iteration + 1;
    MGT_ASSIGN_OR_RETURN(const auto* batches, train_.next(state_.consumed_samples));
    MGT_RETURN_IF_ERROR(
        engine_.forward_backward(feed(*batches), static_cast<uint64_t>(iteration), losses_));
    IterationRecord record;
    for (const auto& loss : losses_) record.losses[loss.name] = loss.mean();
    MGT_ASSIGN_OR_RETURN(record.grad_norm, engine_.reduce_gradients());
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
    std::vector<LossValue> losses;
    for (int64_t i = 0; i < o_.eval_iters; ++i) {
      MGT_ASSIGN_OR_RETURN(const auto* batches, valid_->next(i * o_.global_batch_size));
      MGT_RETURN_IF_ERROR(engine_.evaluate(feed(*batches), losses));
    }
    for (const auto& loss : losses) result.validation[loss.name] = loss.mean();
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
