// A tiny GPT in a folder of its own, trained by the real host: some milliseconds a step.
#pragma once

#include <string>
#include <vector>

#include "integration/host.hpp"
#include "support/temp_folder.hpp"

namespace megatron::test {

// Dropout, gradient accumulation, a warm-up, clipping: all that has a state to get wrong.
inline constexpr std::string_view kTinyGpt = R"([train]
train_iters = 20
micro_batch_size = 2
global_batch_size = 6
log_interval = 1
eval_interval = 5
eval_iters = 2
output_dir = "run"
num_threads = 2

[model]
plugin = "gpt"
num_layers = 2
hidden_size = 32
num_attention_heads = 2
seq_length = 16
hidden_dropout = 0.1
attention_dropout = 0.1

[tokenizer]
plugin = "byte"

[data]
plugin = "mock"

[optimizer]
lr = 1e-2
lr_decay_style = "cosine"
lr_decay_iters = 40
lr_warmup_iters = 3
weight_decay = 0.1

[checkpoint]
save_interval = 5
)";

class Experiment {
 public:
  explicit Experiment(std::string_view manifest = kTinyGpt);

  const std::string& folder() const { return folder_.path(); }
  std::string operator/(std::string_view name) const { return folder_ / name; }

  Command command(const std::vector<std::string>& arguments = {}) const;
  Outcome train(const std::vector<std::string>& arguments = {}) const;

  // metrics.jsonl without what a clock measured.
  std::string metrics() const;
  // Weights and optimizer states; a failed test when the checkpoint is not there.
  std::string checkpoint(int64_t iteration) const;
  std::string checkpoint_folder(int64_t iteration) const;
  // Of the newest folder that is complete, sound or not; 0 without one.
  int64_t newest_iteration() const;

 private:
  TempFolder folder_;
};

// "train.train_iters=N" after --set.
std::vector<std::string> until(int64_t iterations, std::vector<std::string> more = {});

// Of a run that only a signal ends: no machine is too fast for a test that sends one.
inline constexpr int64_t kEndless = 1'000'000;

// The uninterrupted run that others are compared with.
class Reference {
 public:
  explicit Reference(int64_t iterations);
  void expect_same(const Experiment& other) const;

 private:
  int64_t iterations_;
  Experiment experiment_;
};

}  // namespace megatron::test
