// An experiment: its manifest resolved against the schemas of the plugins that it names, and the
// instances that those plugins make.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.hpp"
#include "config/manifest.hpp"
#include "config/resolve.hpp"
#include "megatron/abi/parallel.h"
#include "megatron/tokenizer.hpp"
#include "plugin/registry.hpp"
#include "train/comm_collectives.hpp"
#include "train/engine.hpp"
#include "train/sections.hpp"

namespace megatron::train {

// An object that a plugin made; destroyed through the plugin's table.
template <class Table>
class Instance {
 public:
  Instance() = default;
  Instance(const Table* table, void* self) : table_(table), self_(self) {}
  Instance(Instance&& other) noexcept { swap(other); }
  Instance& operator=(Instance&& other) noexcept { return swap(other), *this; }
  ~Instance() {
    if (self_ != nullptr) table_->destroy(self_);
  }
  explicit operator bool() const { return self_ != nullptr; }
  const Table* table() const { return table_; }
  void* self() const { return self_; }

 private:
  void swap(Instance& other) {
    std::swap(table_, other.table_);
    std::swap(self_, other.self_);
  }
  const Table* table_ = nullptr;
  void* self_ = nullptr;
};

// The services of a training process: its log and its thread pool. The pool is made when the number
// of threads is known; before that, tasks run in the caller.
class PoolServices final : public plugin::HostServices {
 public:
  // threads 0: one a CPU. Ranks of one host take equal parts of its CPUs.
  Status start(int64_t threads, uint32_t local_rank = 0, uint32_t local_size = 1);
  void log(std::string_view plugin, mgt_log_level level, mgt_str message) override;
  uint32_t worker_count() override { return pool_ ? pool_->workers() : 1; }
  void parallel_for(int64_t tasks, mgt_task_fn fn, void* arg) override;

 private:
  std::unique_ptr<ThreadPool> pool_;
};

class Experiment {
 public:
  // Loads the plugins that the manifest names; every problem of the manifest is in the error.
  // several_ranks: the caller knows that the run has more than one; so does a manifest with
  // [[parallel]].
  static Result<std::unique_ptr<Experiment>> load(const std::string& path,
                                                  std::span<const std::string> overrides,
                                                  plugin::Registry& registry,
                                                  bool several_ranks = false);
  // The same of a manifest that may hold these sections alone.
  static Result<std::unique_ptr<Experiment>> load(const config::Manifest& manifest,
                                                  plugin::Registry& registry,
                                                  std::vector<config::SectionSchema> sections);

  const config::Resolved& config() const { return config_; }
  config::Resolved& config() { return config_; }
  // The same values as text, for a checkpoint or --print-config.
  std::string config_text() const { return config::print_config(config_); }

  // ---- plugins' instances; made on first use
  Result<std::optional<TokenizerView>> tokenizer();
  Result<ModelView> model();
  Result<DeviceView> device();
  Result<OptimizerView> optimizer();
  // A dataset of its own for each split; kept until the experiment ends.
  Result<const Instance<mgt_dataset>*> dataset(std::string_view split, int64_t num_samples,
                                               const std::vector<Field>& fields);

  // Options that a user set and the plugin declares but never read while it was made. Plugins that
  // were not made are left out.
  Status check_options_read() const;

  int64_t seed() const { return config_.section("train").get<int64_t>("seed"); }
  // The layout that the [[parallel]] plugins make for a run of that many ranks; nothing: as many as
  // they ask for.
  Result<passes::Layout> layout(std::optional<int64_t> ranks);
  // Of a single rank, whatever the manifest says: for generation and benchmarks.
  passes::Layout single_layout() const;
  // The communication back end, made for this rank.
  Result<CommView> comm(const mgt_comm_context& context);

 private:
  // An object of the plugin that a section names; `context` is what its kind's `create` takes,
  // `act` what an error says was being done.
  template <class Table, class... Context>
  Result<Instance<Table>> create(const config::Section& section, std::string_view act,
                                 const Context*... context);

  plugin::Registry* registry_ = nullptr;
  config::Resolved config_;
  std::set<const config::Section*> made_;  // sections whose plugin has an object
  Instance<mgt_tokenizer> tokenizer_;
  Instance<mgt_model> model_;
  Instance<mgt_device> device_;
  Instance<mgt_optimizer> optimizer_;
  Instance<mgt_comm> comm_;
  std::vector<Instance<mgt_parallel>> parallel_;
  std::vector<std::unique_ptr<Instance<mgt_dataset>>> datasets_;
};

}  // namespace megatron::train
