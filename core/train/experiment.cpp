#include "train/experiment.hpp"

#include "config/abi_config.hpp"
#include "log/log.hpp"
#include "train/layout_builder.hpp"

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
  const size_t each = cpus.size() / local_size;
  if (local_size > 1 && each == 0) {
    options.workers = std::max<uint32_t>(options.workers, 1);
    options.pin = false;  // more ranks than CPUs: the system places them
  } else if (local_size > 1) {
    const auto begin = cpus.begin() + static_cast<std::ptrdiff_t>(local_rank * each);
    options.cpus.assign(begin, begin + static_cast<std::ptrdiff_t>(each));
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

template <class Table>
Result<const Table*> Experiment::table(const config::Section& section, mgt_kind kind,
                                       const mgt_host** host) {
  MGT_ASSIGN_OR_RETURN(const auto loaded, registry_->load(kind, section.plugin()));
  *host = loaded.host();
  return &loaded.template table<Table>();
}

Result<std::optional<TokenizerView>> Experiment::tokenizer() {
  const config::Section* section = config_.find("tokenizer");
  if (section == nullptr) return std::optional<TokenizerView>();
  if (!tokenizer_) {
    const mgt_host* host = nullptr;
    MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_tokenizer>(*section, MGT_KIND_TOKENIZER, &host));
    const config::AbiConfig options(*section);
    void* self = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(t->create(host, options.table(), &self),
                                 text("tokenizer plugin '", section->plugin(), "'")));
    tokenizer_ = {t, self};
  }
  return std::optional(TokenizerView(tokenizer_.table(), tokenizer_.self()));
}

Result<ModelView> Experiment::model() {
  if (!model_) {
    MGT_ASSIGN_OR_RETURN(const auto tokenizer_view, tokenizer());
    config::Section& section = config_.section("model");
    mgt_model_context context;
    MGT_INIT(&context);
    context.vocab_size = tokenizer_view ? tokenizer_view->vocab_size() : 0;
    const mgt_host* host = nullptr;
    MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_model>(section, MGT_KIND_MODEL, &host));
    const config::AbiConfig options(section);
    void* self = nullptr;
    MGT_RETURN_IF_ERROR(
        from_abi(t->create(host, options.table(), &context, &self),
                 text("model plugin '", section.plugin(), "'"))
            .context(text("creating the model of ", config::location(section.origin()))));
    model_ = {t, self};
  }
  return ModelView{model_.table(), model_.self(),
                   text("model plugin '", config_.section("model").plugin(), "'")};
}

Result<DeviceView> Experiment::device() {
  if (!device_) {
    const config::Section& section = config_.section("device");
    const mgt_host* host = nullptr;
    MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_device>(section, MGT_KIND_DEVICE, &host));
    const config::AbiConfig options(section);
    void* self = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(t->create(host, options.table(), &self),
                                 text("device plugin '", section.plugin(), "'")));
    device_ = {t, self};
  }
  return DeviceView(device_.table(), device_.self());
}

Result<OptimizerView> Experiment::optimizer() {
  if (!optimizer_) {
    const config::Section& section = config_.section("optimizer");
    const mgt_host* host = nullptr;
    MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_optimizer>(section, MGT_KIND_OPTIMIZER, &host));
    const config::AbiConfig options(section);
    void* self = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(t->create(host, options.table(), &self),
                                 text("optimizer plugin '", section.plugin(), "'")));
    optimizer_ = {t, self};
  }
  return OptimizerView{optimizer_.table(), optimizer_.self(),
                       text("optimizer plugin '", config_.section("optimizer").plugin(), "'")};
}

Result<const Instance<mgt_dataset>*> Experiment::dataset(std::string_view split,
                                                         int64_t num_samples,
                                                         const std::vector<Field>& inputs) {
  MGT_ASSIGN_OR_RETURN(const auto tokenizer_view, tokenizer());
  const config::Section& section = config_.section("data");
  const mgt_host* host = nullptr;
  MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_dataset>(section, MGT_KIND_DATASET, &host));

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

  const config::AbiConfig options(section);
  void* self = nullptr;
  MGT_RETURN_IF_ERROR(
      from_abi(t->create(host, options.table(), &request, &self),
               text("dataset plugin '", section.plugin(), "'"))
          .context(text("opening the ", split, " split of ", config::location(section.origin()))));
  datasets_.push_back(std::make_unique<Instance<mgt_dataset>>(t, self));
  return datasets_.back().get();
}

Result<passes::Layout> Experiment::layout(std::optional<int64_t> ranks) {
  LayoutCollector collector;
  parallel_.clear();
  for (const config::Section* section : config_.named("parallel")) {
    const mgt_host* host = nullptr;
    MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_parallel>(*section, MGT_KIND_PARALLEL, &host));
    const config::AbiConfig options(*section);
    const auto where = [&] { return text("applying ", config::location(section->origin())); };
    const std::string plugin = text("parallel plugin '", section->plugin(), "'");
    void* self = nullptr;
    MGT_RETURN_IF_ERROR(from_abi(t->create(host, options.table(), &self), plugin).context(where()));
    parallel_.emplace_back(t, self);
    MGT_RETURN_IF_ERROR(from_abi(t->apply(self, collector.table()), plugin).context(where()));
  }
  MGT_ASSIGN_OR_RETURN(passes::Layout layout, collector.finish(ranks));
  layout.multiples = single_layout().multiples;
  return layout;
}

passes::Layout Experiment::single_layout() const {
  passes::Layout layout;
  layout.axes = {{"data", 1, passes::Stationary::activations}};
  layout.multiples["vocab"] = config_.section("model").get<int64_t>("make_vocab_size_divisible_by");
  return layout;
}

Result<CommView> Experiment::comm(const mgt_comm_context& context) {
  const config::Section& section = config_.section("comm");
  const mgt_host* host = nullptr;
  MGT_ASSIGN_OR_RETURN(const auto* t, table<mgt_comm>(section, MGT_KIND_COMM, &host));
  const config::AbiConfig options(section);
  void* self = nullptr;
  MGT_RETURN_IF_ERROR(from_abi(t->create(host, options.table(), &context, &self),
                               text("comm plugin '", section.plugin(), "'")));
  comm_ = {t, self};
  return CommView{comm_.table(), comm_.self()};
}

}  // namespace megatron::train
