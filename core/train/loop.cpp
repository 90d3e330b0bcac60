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
    const bool owed = state_.evaluation_due;
    if (state_.iteration == 0 || owed) MGT_RETURN_IF_ERROR(evaluate(result));
    // What there is at the start needs no saving.
    bool saved = owed == state_.evaluation_due;
    while (state_.iteration < o_.train_iters && !result.stopped) {
      MGT_RETURN_IF_ERROR(look_for_stop(result));
      if (result.stopped) break;
      MGT_RETURN_IF_ERROR(step());
      if (due(o_.eval_interval)) MGT_RETURN_IF_ERROR(evaluate(result));
      // Behind the evaluation: a run that has its last checkpoint has nothing left to do.
      saved = due(o_.save_interval);
      if (saved) MGT_RETURN_IF_ERROR(save());
    }
    if (!saved) MGT_RETURN_IF_ERROR(save());  // it was stopped in between
    reporter_.finish();
    result.state = state_;
    return result;
  }

 private:
  // At every `interval` iterations, and at the end.
  bool due(int64_t interval) const {
    return state_.iteration == o_.train_iters || (interval > 0 && state_.iteration % interval == 0);
  }
  // Whether any rank was asked to stop: all do so at the same place.
  Status look_for_stop(LoopResult& result) {
    const bool asked = hooks_.stop != nullptr && hooks_.stop->load(std::memory_order_relaxed);
    MGT_ASSIGN_OR_RETURN(result.stopped, engine_.any_rank("stopping", asked));
    return {};
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
    record.iteration = iteration;
    record.consumed_samples = state_.consumed_samples + o_.global_batch_size;
    record.global_batch_size = o_.global_batch_size;
    record.learning_rate = o_.lr.at(state_.consumed_samples);
    Status finite = check_finite(record);
    if (finite.ok()) {
      const double coefficient =
          o_.clip_grad > 0 ? std::min(1.0, o_.clip_grad / (record.grad_norm + 1e-6)) : 1.0;
      MGT_RETURN_IF_ERROR(engine_.update(coefficient, record.learning_rate,
                                         o_.weight_decay.at(state_.consumed_samples), iteration));
      state_ = {iteration, record.consumed_samples};
    }
    record.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    MGT_RETURN_IF_ERROR(reporter_.iteration(record));
    return finite;
  }

  // A number that is not finite ends the run: the record, which counts it, is the last one.
  static Status check_finite(IterationRecord& record) {
    for (const auto& [name, value] : record.losses) {
      if (std::isfinite(value)) continue;
      record.nan_iterations = 1;
      return skip(record, text("the ", name, " loss is ", value));
    }
    if (std::isfinite(record.grad_norm)) return {};
    return skip(record, text("the gradient norm is ", record.grad_norm));
  }
  static Status skip(IterationRecord& record, std::string_view cause) {
    record.skipped_iterations = 1;
    return Status::error(
        Code::failed_precondition,
        text("iteration ", record.iteration, " is not finite; the weights were not updated"), cause,
        "lower optimizer.lr or raise its warm-up; start again, or resume from a checkpoint");
  }

  // Gives up when it is asked to stop: half an evaluation says nothing, and a resumed run owes it.
  Status evaluate(LoopResult& result) {
    if (valid_ == nullptr || o_.eval_iters == 0) return {};
    std::vector<LossValue> losses;
    for (int64_t i = 0; i < o_.eval_iters; ++i) {
      MGT_RETURN_IF_ERROR(look_for_stop(result));
      if (result.stopped) {
        state_.evaluation_due = state_.iteration > 0;  // at the start every run evaluates
        return {};
      }
      MGT_ASSIGN_OR_RETURN(const auto* batches, valid_->next(i * o_.global_batch_size));
      MGT_RETURN_IF_ERROR(engine_.evaluate(feed(*batches), losses));
    }
    state_.evaluation_due = false;
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
