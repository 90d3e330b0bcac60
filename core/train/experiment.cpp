#include "train/experiment.hpp"

#include "config/abi_config.hpp"
#include "log/log.hpp"
#include "plugin/kind.hpp"
#include "train/layout_collector.hpp"

namespace megatron::train {
namespace {

// Which kind of plugin a section names.
mgt_kind kind_of(std::string_view section) {
  if (section == "model") return MGT_KIND_MODEL;
  if (section == "tokenizer") return MGT_KIND_TOKENIZER;
  if (section == "data") return MGT_KIND_DATASET;
  if (section == "optimizer") return MGT_KIND_OPTIMIZER;
  if (section == "parallel") return MGT_KIND_PARALLEL;
  if (section == "comm") return MGT_KIND_COMM;
  MGT_CHECK(section == "device", section);
  return MGT_KIND_DEVICE;
}

}  // namespace

Status PoolServices::start(int64_t threads, uint32_t local_rank, uint32_t local_size) {
  ThreadPoolOptions options;
  options.workers = static_cast<uint32_t>(threads);
  const auto cpus = usable_cpus();
  options.cpus = cpus_of_rank(cpus, local_rank, local_size);
  if (cpus.size() < local_size) {
    options.workers = std::max<uint32_t>(options.workers, 1);
    options.pin = false;  // more ranks than CPUs: the system places them
  }
  MGT_ASSIGN_OR_RETURN(pool_, ThreadPool::create(options));
  return {};
}

void PoolServices::log(std::string_view plugin, mgt_log_level level, mgt_str message) {
  log::write_plugin(plugin, level, message);
}

void PoolServices::parallel_for(int64_t tasks, mgt_task_fn fn, void* arg) {
  if (pool_ == nullptr) {
    for (int64_t t = 0; t < tasks; ++t) fn(arg, t, 0);
    return;
  }
  pool_->parallel_for(tasks, [&](int64_t task, uint32_t worker) { fn(arg, task, worker); });
}

Result<std::unique_ptr<Experiment>> Experiment::load(const std::string& path,
                                                     std::span<const std::string> overrides,
                                                     plugin::Registry& registry,
                                                     bool several_ranks) {
  const auto manifest = config::Manifest::load(path, overrides);
  if (!manifest.ok())  // whatever the system says of the file: the caller named a wrong one
    return Status(Code::invalid_argument, std::string(manifest.status().message()));
  several_ranks = several_ranks || manifest->root().find("parallel") != nullptr;
  return load(*manifest, registry, experiment_sections(several_ranks));
}

Result<std::unique_ptr<Experiment>> Experiment::load(const config::Manifest& manifest,
                                                     plugin::Registry& registry,
                                                     std::vector<config::SectionSchema> sections) {
  for (const auto& named : config::named_plugins(manifest, sections)) {
    auto loaded = registry.load(kind_of(named.section), named.name);
    if (!loaded.ok()) {
      return std::move(loaded).status().context(
          text("reading ", config::location(named.origin), ": [", named.section, "]"));
    }
    MGT_ASSIGN_OR_RETURN(
        config::Schema schema,
        config::Schema::from_abi(loaded->name(), loaded->options(), loaded->option_count()));
    for (auto& section : sections) {
      if (section.name == named.section) section.plugins.push_back(std::move(schema));
    }
  }
  auto experiment = std::make_unique<Experiment>();
  experiment->registry_ = &registry;
  MGT_ASSIGN_OR_RETURN(experiment->config_, config::resolve(manifest, sections));
  return experiment;
}

template <class Table, class... Context>
Result<Instance<Table>> Experiment::create(const config::Section& section, std::string_view act,
                                           const Context*... context) {
  constexpr mgt_kind kind = plugin::kKindOfTable<Table>;
  MGT_ASSIGN_OR_RETURN(const auto loaded, registry_->load(kind, section.plugin()));
  const Table& table = loaded.template table<Table>();
  const config::AbiConfig options(section);
  void* self = nullptr;
  MGT_RETURN_IF_ERROR(from_abi(table.create(loaded.host(), options.table(), context..., &self),
                               text(plugin::kind_name(kind), " plugin '", section.plugin(), "'"))
                          .context(text(act, " of ", config::location(section.origin()))));
  made_.insert(&section);
  return Instance<Table>(&table, self);
}

// One that has its default value, as all have in a checkpoint's config.toml, misleads nobody.
Status Experiment::check_options_read() const {
  for (const auto& section : config_.all()) {
    if (!made_.contains(&section)) continue;
    for (const auto& entry : section.entries()) {
      if (!entry.of_plugin || entry.read || !entry.origin.by_user()) continue;
      if (entry.value == entry.option.default_value) continue;
      return invalid_argument(
          section.describe(entry.option.key),
          text("plugin '", section.plugin(),
               "' declares this option and never reads it: the value would be ignored"),
          "remove the key, or report it to the plugin's author");
    }
  }
  return {};
}

Result<std::optional<TokenizerView>> Experiment::tokenizer() {
  const config::Section* section = config_.find("tokenizer");
  if (section == nullptr) return std::optional<TokenizerView>();
  if (!tokenizer_) {
    MGT_ASSIGN_OR_RETURN(tokenizer_, create<mgt_tokenizer>(*section, "creating the tokenizer"));
  }
  return std::optional(TokenizerView(tokenizer_.table(), tokenizer_.self()));
}

Result<ModelView> Experiment::model() {
  if (!model_) {
    MGT_ASSIGN_OR_RETURN(const auto tokenizer_view, tokenizer());
    mgt_model_context context;
    MGT_INIT(&context);
    context.vocab_size = tokenizer_view ? tokenizer_view->vocab_size() : 0;
    MGT_ASSIGN_OR_RETURN(
        model_, create<mgt_model>(config_.section("model"), "creating the model", &context));
  }
  return ModelView{model_.table(), model_.self(),
                   text("model plugin '", config_.section("model").plugin(), "'")};
}

Result<DeviceView> Experiment::device() {
  if (!device_) {
    MGT_ASSIGN_OR_RETURN(device_,
                         create<mgt_device>(config_.section("device"), "opening the device"));
  }
  return DeviceView(device_.table(), device_.self());
}

Result<OptimizerView> Experiment::optimizer() {
  if (!optimizer_) {
    MGT_ASSIGN_OR_RETURN(
        optimizer_, create<mgt_optimizer>(config_.section("optimizer"), "creating the optimizer"));
  }
  return OptimizerView{optimizer_.table(), optimizer_.self(),
                       text("optimizer plugin '", config_.section("optimizer").plugin(), "'")};
}

Result<const Instance<mgt_dataset>*> Experiment::dataset(std::string_view split,
                                                         int64_t num_samples,
                                                         const std::vector<Field>& inputs) {
  MGT_ASSIGN_OR_RETURN(const auto tokenizer_view, tokenizer());
  const config::Section& section = config_.section("data");

  std::vector<std::vector<mgt_dim>> dims;
  std::vector<mgt_field> fields;
  for (const auto& input : inputs) {
    auto& sample_dims = dims.emplace_back();
    for (size_t d = 1; d < input.type.rank(); ++d) {  // dimension 0 is the batch
      sample_dims.push_back({to_abi(input.type.dims[d].axis), input.type.dims[d].size});
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    mgt_field field;
    MGT_INIT(&field);
    field.name = to_abi(inputs[i].name);
    field.dtype = static_cast<mgt_dtype>(inputs[i].type.dtype);
    field.dims = dims[i].data();
    field.rank = static_cast<uint32_t>(dims[i].size());
    fields.push_back(field);
  }
  const mgt_tokenizer_handle tokenizer_handle{tokenizer_.table(), tokenizer_.self()};
  const std::string cache_dir =
      section.has("cache_dir") ? section.get<std::string>("cache_dir") : std::string();
  mgt_dataset_request request;
  MGT_INIT(&request);
  request.split = to_abi(split);
  request.num_samples = num_samples;
  request.seed = static_cast<uint64_t>(seed());
  request.cache_dir = to_abi(std::string_view(cache_dir));
  request.tokenizer = tokenizer_view ? &tokenizer_handle : nullptr;
  request.fields = fields.data();
  request.field_count = fields.size();

  MGT_ASSIGN_OR_RETURN(
      auto made, create<mgt_dataset>(section, text("opening the ", split, " split"), &request));
  datasets_.push_back(std::make_unique<Instance<mgt_dataset>>(std::move(made)));
  return datasets_.back().get();
}

Result<passes::Layout> Experiment::layout(std::optional<int64_t> ranks) {
  LayoutCollector collector;
  parallel_.clear();
  for (const config::Section* section : config_.named("parallel")) {
    MGT_ASSIGN_OR_RETURN(auto strategy, create<mgt_parallel>(*section, "creating the strategy"));
    MGT_RETURN_IF_ERROR(from_abi(strategy.table()->apply(strategy.self(), collector.table()),
                                 text("parallel plugin '", section->plugin(), "'"))
                            .context(text("applying ", config::location(section->origin()))));
    parallel_.push_back(std::move(strategy));
  }
  MGT_ASSIGN_OR_RETURN(passes::Layout layout, collector.finish(ranks));
  layout.multiples = single_layout().multiples;
  return layout;
}

passes::Layout Experiment::single_layout() const {
  passes::Layout layout;
  layout.axes = {{"data", 1}};
  layout.multiples["vocab"] = config_.section("model").get<int64_t>("make_vocab_size_divisible_by");
  return layout;
}

Result<CommView> Experiment::comm(const mgt_comm_context& context) {
  MGT_ASSIGN_OR_RETURN(comm_,
                       create<mgt_comm>(config_.section("comm"), "connecting the ranks", &context));
  return CommView{comm_.table(), comm_.self()};
}

}  // namespace megatron::train
