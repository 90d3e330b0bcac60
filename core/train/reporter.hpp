// What a run tells: Megatron's console lines, a progress bar on a terminal, and metrics.jsonl.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::train {

// Of one training iteration, or of several: then times, losses and rates are means, and counts add
// up.
struct IterationRecord {
  int64_t iteration = 0;
  int64_t consumed_samples = 0;
  double seconds = 0;
  double learning_rate = 0;
  int64_t global_batch_size = 0;
  std::map<std::string, double> losses;  // mean over the global batch's counted positions, by term
  double grad_norm = 0;                  // before clipping
  double loss_scale = 1;                 // of the backward pass; fp32 needs none
  int64_t skipped_iterations = 0;        // without an update: a loss or the norm is not finite
  int64_t nan_iterations = 0;            // a loss is not finite
};

class Reporter {
 public:
  struct Options {
    int64_t train_iters = 0;
    int64_t log_interval = 1;
    int64_t tokens_per_iteration = 0;
    double flops_per_iteration = 0;  // model FLOPs; 0 = unknown
    std::string metrics_path;        // "" = none
    bool progress_bar = false;       // stderr is a terminal
    bool silent = false;             // of a rank that does not report
  };
  explicit Reporter(Options options) : options_(std::move(options)) {}
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;
  ~Reporter();

  // Appends to metrics.jsonl; records of iterations after `iteration` are dropped first, so that a
  // resumed run continues the file that a straight run would have written.
  Status open(int64_t iteration);
  // Console lines come at iteration 1, at every log_interval and at the end, also one by a skipped
  // iteration, which ends the run. They have means over the interval, losses over its updates.
  Status iteration(const IterationRecord& record);
  // "validation loss at iteration 100 | lm loss value: … | lm loss PPL: … |" between rules.
  Status validation(std::string_view split, int64_t iteration,
                    const std::map<std::string, double>& losses);
  // A line of text on stdout that does not tear the progress bar.
  void line(std::string_view text);
  void finish();

 private:
  void draw_bar(int64_t iteration);
  void clear_bar();
  Status write_metrics(const std::string& json);

  Options options_;
  std::FILE* metrics_ = nullptr;
  bool bar_drawn_ = false;
  int64_t first_iteration_ = -1;
  double bar_seconds_ = 0;  // since the first iteration of this process
  // Since the last console line.
  int64_t interval_iterations_ = 0;
  double interval_seconds_ = 0;
  int64_t interval_skipped_ = 0;
  int64_t interval_nan_ = 0;
  std::map<std::string, double> interval_losses_;  // sums over updates
};

// Megatron's line (training_log of its training.py). Exposed for tests.
std::string format_iteration(const IterationRecord& mean, int64_t train_iters,
                             double tokens_per_second, double tflops, std::string_view timestamp);

}  // namespace megatron::train
