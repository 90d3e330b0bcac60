// The train loop: micro-batches, clipping, update, evaluation, checkpoints.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "train/data_feed.hpp"
#include "train/engine.hpp"
#include "train/lr_schedule.hpp"
#include "train/reporter.hpp"

namespace megatron::train {

struct LoopOptions {
  int64_t train_iters = 0;
  int64_t micro_batch_size = 1;
  int64_t global_batch_size = 1;
  double clip_grad = 1.0;  // 0 = off
  LrSchedule lr;
  WeightDecaySchedule weight_decay;
  int64_t eval_interval = 0;  // 0 = at the end only
  int64_t eval_iters = 0;     // global batches an evaluation; 0 = never
  int64_t save_interval = 0;  // 0 = at the end only
};

using LoopState = checkpoint::Progress;

struct LoopHooks {
  // Writes a checkpoint of the state; null: none are written.
  std::function<Status(const LoopState&)> save;
  // Set from a signal handler: the loop finishes its iteration, saves and returns.
  const std::atomic<bool>* stop = nullptr;
};

struct LoopResult {
  LoopState state;
  bool stopped = false;
  std::map<std::string, double> validation;  // of the last evaluation
};

// `valid` may be null. A loss or gradient norm that is not finite ends the run before the update.
Result<LoopResult> run_loop(Engine& engine, DataFeed& train, DataFeed* valid,
                            const LoopOptions& options, LoopState state, Reporter& reporter,
                            const LoopHooks& hooks);

}  // namespace megatron::train
