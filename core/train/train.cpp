#include "train/train.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "log/log.hpp"
#include "train/generate.hpp"
#include "train/state_transfer.hpp"

namespace megatron::train {
namespace {

namespace fs = std::filesystem;

void warn(std::string_view message) { log::warning(message); }

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

Status refuse(std::string_view fact, std::string_view cause, std::string_view action) {
  return invalid_argument(fact, cause, action);
}

Result<LrSchedule> lr_schedule(const config::Section& o, int64_t global_batch,
                               int64_t train_iters) {
  LrSchedule s;
  MGT_ASSIGN_OR_RETURN(s.style, parse_lr_decay_style(o.get<std::string>("lr_decay_style")));
  MGT_ASSIGN_OR_RETURN(s.wsd_style,
                       parse_wsd_decay_style(o.get<std::string>("lr_wsd_decay_style")));
  s.max = o.get<double>("lr");
  s.min = o.get<double>("min_lr");
  s.init = o.get<double>("lr_warmup_init");
  const int64_t decay_iters =
      o.get<int64_t>("lr_decay_iters") > 0 ? o.get<int64_t>("lr_decay_iters") : train_iters;
  s.decay_samples = decay_iters * global_batch;
  const double fraction = o.get<double>("lr_warmup_fraction");
  const int64_t warmup_iters = o.get<int64_t>("lr_warmup_iters");
  if (fraction > 0 && warmup_iters > 0) {
    return refuse(text(o.describe("lr_warmup_fraction"), ": the warm-up is given twice"),
                  text("lr_warmup_iters is ", warmup_iters),
                  "set one of lr_warmup_fraction and lr_warmup_iters");
  }
  s.warmup_samples = fraction > 0
                         ? static_cast<int64_t>(fraction * static_cast<double>(s.decay_samples))
                         : warmup_iters * global_batch;
  s.wsd_decay_samples = o.get<int64_t>("lr_wsd_decay_iters") * global_batch;
  if (s.min > s.max)
    return refuse(o.describe("min_lr"), text("it exceeds lr = ", s.max),
                  "lower min_lr or raise lr");
  if (s.warmup_samples >= s.decay_samples && s.warmup_samples > 0) {
    return refuse(
        o.describe(fraction > 0 ? "lr_warmup_fraction" : "lr_warmup_iters"),
        text("the warm-up takes ", s.warmup_samples, " samples, the whole decay ", s.decay_samples),
        "shorten the warm-up");
  }
  if (s.style == LrDecayStyle::wsd && s.wsd_decay_samples == 0) {
    return refuse(o.describe("lr_decay_style"), "WSD needs the length of its last phase",
                  "set optimizer.lr_wsd_decay_iters");
  }
  return s;
}

Result<WeightDecaySchedule> weight_decay_schedule(const config::Section& o, int64_t global_batch,
                                                  int64_t train_iters) {
  WeightDecaySchedule s;
  MGT_ASSIGN_OR_RETURN(s.style,
                       parse_weight_decay_style(o.get<std::string>("weight_decay_incr_style")));
  const double constant = o.get<double>("weight_decay");
  s.start = o.has("start_weight_decay") ? o.get<double>("start_weight_decay") : constant;
  s.end = o.has("end_weight_decay") ? o.get<double>("end_weight_decay") : constant;
  s.samples = train_iters * global_batch;
  if (s.style == WeightDecayStyle::constant && s.start != s.end) {
    return refuse(o.describe("weight_decay_incr_style"),
                  text("weight decay starts at ", s.start, " and ends at ", s.end),
                  "choose linear or cosine, or leave start_ and end_weight_decay out");
  }
  return s;
}

int64_t data_ranks(const passes::Layout& layout) {
  const auto axis = layout.axis(instance_axis(layout));
  return axis ? layout.axes[*axis].size : 1;
}
int64_t data_rank(const passes::Layout& layout, int64_t rank) {
  const auto axis = layout.axis(instance_axis(layout));
  return axis ? layout.coordinates(rank)[*axis] : 0;
}

// "pipeline 2 · data 4"
std::string describe(const passes::Layout& layout) {
  std::string out;
  for (const auto& axis : layout.axes) {
    if (axis.size > 1) out += text(out.empty() ? "" : " · ", axis.name, " ", axis.size);
  }
  return out;
}

Result<LoopOptions> loop_options(const Experiment& experiment, const passes::Layout& layout) {
  const auto& train = experiment.config().section("train");
  const auto& optimizer = experiment.config().section("optimizer");
  LoopOptions o;
  o.train_iters = train.get<int64_t>("train_iters");
  o.micro_batch_size = train.get<int64_t>("micro_batch_size");
  o.global_batch_size = train.get<int64_t>("global_batch_size");
  const int64_t ranks = data_ranks(layout);
  if (o.global_batch_size == 0) o.global_batch_size = o.micro_batch_size * ranks;
  if (o.global_batch_size % (o.micro_batch_size * ranks) != 0) {
    return refuse(train.describe("global_batch_size"),
                  ranks == 1
                      ? text("it is not a multiple of micro_batch_size = ", o.micro_batch_size)
                      : text("it is not a multiple of micro_batch_size · data ranks = ",
                             o.micro_batch_size, " · ", ranks),
                  "change one of them");
  }
  o.clip_grad = optimizer.get<double>("clip_grad");
  MGT_ASSIGN_OR_RETURN(o.lr, lr_schedule(optimizer, o.global_batch_size, o.train_iters));
  MGT_ASSIGN_OR_RETURN(o.weight_decay,
                       weight_decay_schedule(optimizer, o.global_batch_size, o.train_iters));
  o.eval_interval = train.get<int64_t>("eval_interval");
  o.eval_iters = train.get<int64_t>("eval_iters");
  o.save_interval = experiment.config().section("checkpoint").get<int64_t>("save_interval");
  return o;
}

// Options that a plugin declares and ignores. One that has its default value, as all have in a
// checkpoint's config.toml, misleads nobody.
Status check_all_read(const config::Resolved& config) {
  for (const auto& section : config.all()) {
    for (const auto& entry : section.entries()) {
      if (!entry.of_plugin || entry.read || !entry.origin.by_user()) continue;
      if (entry.value == entry.option.default_value) continue;
      return refuse(section.describe(entry.option.key),
                    text("plugin '", section.plugin(),
                         "' declares this option and never reads it: the value would be ignored"),
                    "remove the key, or report it to the plugin's author");
    }
  }
  return {};
}

Status prepare_directory(const std::string& directory, const RunOptions& options) {
  const std::string metrics = directory + "/metrics.jsonl";
  const std::string checkpoints = directory + "/checkpoints";
  std::error_code error;
  bool used = false;
  for (const auto& path : {metrics, checkpoints}) {
    used = fs::exists(path, error) || used;
    if (error) return errno_status("inspect", path, error.value());
  }
  if (used && !options.resume && !options.overwrite) {
    return Status::error(
        Code::already_exists, text("'", directory, "' already holds a run"),
        "its files would be replaced",
        "--resume continues it, --overwrite starts anew, or choose another train.output_dir");
  }
  if (options.overwrite) {
    fs::remove(metrics, error);
    if (error) return errno_status("remove", metrics, error.value());
    fs::remove_all(checkpoints, error);
    if (error) return errno_status("remove", checkpoints, error.value());
  }
  fs::create_directories(directory, error);
  if (error) return errno_status("create", directory, error.value());
  return {};
}

int64_t peak_rss_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

}  // namespace

std::string output_dir(const Experiment& experiment, const std::string& manifest_path) {
  const auto& train = experiment.config().section("train");
  if (train.has("output_dir")) {
    if (const auto& path = train.get<std::string>("output_dir"); !path.empty()) return path;
  }
  return absolute_path(text("runs/", fs::path(manifest_path).stem().string()));
}

namespace {

Result<RankRequest> rank_request(Experiment& experiment, const passes::Layout& layout,
                                 const LoopOptions& loop) {
  RankRequest request;
  MGT_ASSIGN_OR_RETURN(request.model, experiment.model());
  MGT_ASSIGN_OR_RETURN(request.optimizer, experiment.optimizer());
  request.layout = layout;
  request.micro_batch_size = loop.micro_batch_size;
  request.micro_batches = loop.global_batch_size / loop.micro_batch_size / data_ranks(layout);
  request.evaluate = loop.eval_iters > 0;
  return request;
}

// Compute threads of this rank: its share of the CPUs that the ranks of this host have.
Status start_threads(const Experiment& experiment, PoolServices& services, const Cluster* cluster) {
  const int64_t threads = experiment.config().section("train").get<int64_t>("num_threads");
  if (cluster == nullptr) return services.start(threads, 0, 1);
  return services.start(threads, cluster->info().local_rank, cluster->info().local_size);
}

}  // namespace

Status check_experiment(Experiment& experiment, const passes::Layout& layout) {
  MGT_ASSIGN_OR_RETURN(const LoopOptions loop, loop_options(experiment, layout));
  MGT_ASSIGN_OR_RETURN(RankRequest request, rank_request(experiment, layout, loop));
  const auto axis = layout.axis(layout.pipeline_axis);
  for (int64_t rank = 0; rank < layout.world_size(); ++rank) {
    // Ranks that differ in their stage alone stand for all others.
    const auto at = layout.coordinates(rank);
    bool stands = true;
    for (size_t m = 0; m < at.size(); ++m) stands = stands && (at[m] == 0 || m == axis);
    if (!stands) continue;
    request.rank = rank;
    MGT_RETURN_IF_ERROR(build_rank_programs(request).status());
  }
  return {};
}

Result<LoopResult> run_experiment(Experiment& experiment, PoolServices& services,
                                  const passes::Layout& layout, Cluster* cluster,
                                  const std::string& directory, const RunOptions& options) {
  const auto& config = experiment.config();
  const bool leads = cluster == nullptr || cluster->info().rank == 0;
  MGT_ASSIGN_OR_RETURN(const LoopOptions loop, loop_options(experiment, layout));
  MGT_RETURN_IF_ERROR(start_threads(experiment, services, cluster));
  EngineRequest request;
  MGT_ASSIGN_OR_RETURN(static_cast<RankRequest&>(request), rank_request(experiment, layout, loop));
  MGT_ASSIGN_OR_RETURN(request.device, experiment.device());
  request.seed = static_cast<uint64_t>(experiment.seed());
  std::unique_ptr<CommCollectives> collectives;
  if (cluster != nullptr) {
    const launch::RankInfo& info = cluster->info();
    request.rank = info.rank;
    cluster->activity().set("connecting the ranks");
    mgt_comm_context context;
    MGT_INIT(&context);
    context.rank = info.rank;
    context.world_size = info.world_size;
    context.local_rank = info.local_rank;
    context.local_size = info.local_size;
    context.store = cluster->store();
    MGT_ASSIGN_OR_RETURN(const CommView comm, experiment.comm(context));
    cluster->on_abort(
        [comm](std::string_view reason) { comm.table->abort(comm.self, to_abi(reason)); });
    MGT_ASSIGN_OR_RETURN(collectives, CommCollectives::create(comm, layout, request.rank,
                                                              [cluster](std::string_view what) {
                                                                cluster->activity().set(what);
                                                              }));
    request.collectives = collectives.get();
  }
  MGT_ASSIGN_OR_RETURN(auto engine, Engine::create(request));

  // Of each host one rank builds the datasets' caches, then the others find them.
  const bool first_here = cluster == nullptr || cluster->info().local_rank == 0;
  const auto in_turn = [&](std::string_view what, bool first,
                           const std::function<Status()>& body) -> Status {
    if (first) MGT_RETURN_IF_ERROR(body());
    MGT_RETURN_IF_ERROR(engine->any_rank(what, false).status());
    return first ? Status() : body();
  };
  const BatchShare share{
      loop.micro_batch_size, request.micro_batches,
      data_rank(layout, request.rank) * request.micro_batches * loop.micro_batch_size,
      loop.global_batch_size};
  std::optional<DataFeed> train_feed;
  std::optional<DataFeed> valid_feed;
  MGT_RETURN_IF_ERROR(in_turn("opening the datasets", first_here, [&]() -> Status {
    MGT_ASSIGN_OR_RETURN(
        const auto* train_data,
        experiment.dataset("train", loop.train_iters * loop.global_batch_size, engine->inputs()));
    train_feed.emplace(DatasetView{train_data->table(), train_data->self(), "train"},
                       engine->inputs(), share);
    if (loop.eval_iters == 0) return {};
    MGT_ASSIGN_OR_RETURN(
        const auto* valid_data,
        experiment.dataset("valid", loop.eval_iters * loop.global_batch_size, engine->inputs()));
    valid_feed.emplace(DatasetView{valid_data->table(), valid_data->self(), "valid"},
                       engine->inputs(), share);
    return {};
  }));

  MGT_RETURN_IF_ERROR(check_all_read(config));
  // Everything that can be wrong before the first step has had its say; now the run's files.
  if (leads) MGT_RETURN_IF_ERROR(prepare_directory(directory, options));
  MGT_RETURN_IF_ERROR(engine->any_rank("preparing the run's folder", false).status());
  const std::string checkpoints = directory + "/checkpoints";
  StateTransfer transfer(*engine, leads);
  LoopState state;
  MGT_RETURN_IF_ERROR(engine->initialize_parameters());
  const auto& checkpoint_section = config.section("checkpoint");
  const auto inform = [&](const std::string& message) {
    if (leads) log::info(message);
  };
  if (options.resume) {
    MGT_ASSIGN_OR_RETURN(const auto checkpoint,
                         checkpoint::Checkpoint::open_newest(checkpoints, warn));
    state = {checkpoint.progress().iteration, checkpoint.progress().consumed_samples};
    if (state.iteration >= loop.train_iters) {
      inform(text("the run is finished: ", checkpoint.folder(), " is of iteration ",
                  state.iteration, ", train.train_iters is ", loop.train_iters,
                  "\n  fix: raise train.train_iters to train on"));
      return LoopResult{state, false, {}};
    }
    MGT_RETURN_IF_ERROR(transfer.load(checkpoint, true));
    inform(text("resuming from ", checkpoint.folder()));
  } else if (checkpoint_section.has("load") &&
             !checkpoint_section.get<std::string>("load").empty()) {
    MGT_ASSIGN_OR_RETURN(const auto checkpoint,
                         open_checkpoint(checkpoint_section.get<std::string>("load")));
    MGT_RETURN_IF_ERROR(transfer.load(checkpoint, false));
    inform(text("weights from ", checkpoint.folder()));
  }
  if (leads) MGT_RETURN_IF_ERROR(write_file(directory + "/config.toml", experiment.config_text()));

  const RankPrograms& programs = engine->programs();
  const auto memory = engine->memory();
  const double flops =
      programs.train_flops * static_cast<double>(loop.global_batch_size / loop.micro_batch_size);
  MGT_ASSIGN_OR_RETURN(const std::string device, request.device.description());
  inform(fmt::format("device: {}", device));
  if (cluster != nullptr) inform(text("mesh: ", describe(layout)));
  inform(fmt::format("model: {} parameters; {:.3f} TFLOP an iteration", programs.parameter_count,
                     flops / 1e12));
  inform(fmt::format(
      "memory planned{}: {:.3f} GiB = weights {:.3f} + gradients {:.3f} + optimizer {:.3f} + "
      "activations {:.3f}",
      cluster == nullptr ? "" : " on rank 0", gib(memory.total()), gib(memory.parameters),
      gib(memory.gradients), gib(memory.optimizer_states),
      gib(memory.activations + memory.scratch)));

  int64_t seq_tokens = 1;  // of one sequence: the elements of its first field
  if (!engine->inputs().empty())
    seq_tokens = engine->inputs()[0].type.elements() / loop.micro_batch_size;
  Reporter reporter(
      {.train_iters = loop.train_iters,
       .log_interval = config.section("train").get<int64_t>("log_interval"),
       .tokens_per_iteration = loop.global_batch_size * seq_tokens,
       .flops_per_iteration = flops / static_cast<double>(layout.world_size()),
       .metrics_path = leads ? directory + "/metrics.jsonl" : "",
       .progress_bar = leads && isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) != 0,
       .silent = !leads});
  MGT_RETURN_IF_ERROR(reporter.open(state.iteration));
  LoopHooks hooks;
  hooks.stop = options.stop;
  if (checkpoint_section.get<bool>("save")) {
    hooks.save = [&](const LoopState& at) -> Status {
      MGT_ASSIGN_OR_RETURN(const std::string folder,
                           transfer.save(checkpoints, at, experiment.config_text(),
                                         checkpoint_section.get<int64_t>("keep")));
      reporter.line(text(" saved checkpoint ", folder));
      return {};
    };
  }
  MGT_ASSIGN_OR_RETURN(LoopResult result,
                       run_loop(*engine, *train_feed, valid_feed ? &*valid_feed : nullptr, loop,
                                state, reporter, hooks));
  inform(fmt::format(
      "memory: {:.3f} GiB planned, {:.3f} GiB peak of the process; waited {:.2f} s for data",
      gib(memory.total()), gib(peak_rss_bytes()), train_feed->waited_seconds()));
  return result;
}

}  // namespace megatron::train
