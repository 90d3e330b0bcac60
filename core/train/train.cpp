#include "train/train.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "log/log.hpp"
#include "train/run_plan.hpp"
#include "train/run_request.hpp"
#include "train/run_start.hpp"
#include "train/state_transfer.hpp"

namespace megatron::train {
namespace {

namespace fs = std::filesystem;

void warn(std::string_view message) { log::warning(message); }

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

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

// Compute threads of this rank: its share of the CPUs that the ranks of this host have.
Status start_threads(const Experiment& experiment, PoolServices& services, const Cluster* cluster) {
  const int64_t threads = experiment.config().section("train").get<int64_t>("num_threads");
  if (cluster == nullptr) return services.start(threads, 0, 1);
  return services.start(threads, cluster->info().local_rank, cluster->info().local_size);
}

}  // namespace

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
    MGT_ASSIGN_OR_RETURN(const RunData data, open_datasets(experiment, loop, engine->inputs()));
    const auto feed = [&](const Instance<mgt_dataset>& dataset, std::string_view split,
                          std::optional<DataFeed>& into) {
      into.emplace(DatasetView{dataset.table(), dataset.self(), split}, engine->inputs(), share);
    };
    feed(*data.train, "train", train_feed);
    if (data.valid != nullptr) feed(*data.valid, "valid", valid_feed);
    return {};
  }));

  MGT_RETURN_IF_ERROR(experiment.check_options_read());
  std::optional<RunFolder> folder;  // of the rank that writes into it
  if (leads) {
    MGT_ASSIGN_OR_RETURN(RunFolder opened, RunFolder::open(directory, options.use(), warn));
    folder.emplace(std::move(opened));
  }
  MGT_RETURN_IF_ERROR(engine->any_rank("opening the run's folder", false).status());
  const std::string checkpoints = directory + "/checkpoints";
  StateTransfer transfer(*engine, leads);
  LoopState state;
  MGT_RETURN_IF_ERROR(engine->initialize_parameters());
  const auto& checkpoint_section = config.section("checkpoint");
  const auto inform = [&](const std::string& message) {
    if (leads) log::info(message);
  };
  MGT_ASSIGN_OR_RETURN(const RunStart start, open_start(experiment, checkpoints, options.resume,
                                                        [&](std::string_view message) {
                                                          if (leads) warn(message);
                                                        }));
  if (start.resumes) state = start.from->progress();
  if (start.finished(loop.train_iters)) {
    inform(text("the run is finished: ", start.from->folder(), " is of iteration ", state.iteration,
                ", train.train_iters is ", loop.train_iters,
                "\n  fix: raise train.train_iters to train on"));
    return LoopResult{state, false, {}};
  }
  if (start.from) {
    MGT_RETURN_IF_ERROR(transfer.load(*start.from, start.resumes));
    inform(text(start.resumes ? "resuming from " : "weights from ", start.from->folder()));
  }
  if (start.resumes && leads) {
    MGT_ASSIGN_OR_RETURN(const std::string changes, describe_changes(start, experiment));
    if (!changes.empty()) warn(changes);
  }
  // Everything that can be wrong before the first step has had its say; now the run's files.
  MGT_RETURN_IF_ERROR(engine->any_rank("loading weights", false).status());
  if (leads) {
    MGT_RETURN_IF_ERROR(folder->begin());
    MGT_RETURN_IF_ERROR(write_file(folder->config(), experiment.config_text()));
  }

  const RankPrograms& programs = engine->programs();
  const auto memory = engine->memory();
  const double flops =
      programs.train_flops * static_cast<double>(loop.global_batch_size / loop.micro_batch_size);
  MGT_ASSIGN_OR_RETURN(const std::string device, request.device.description());
  inform(fmt::format("device: {}", device));
  if (cluster != nullptr) inform(text("mesh: ", describe_mesh(layout)));
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
       .metrics_path = leads ? folder->metrics() : "",
       .progress_bar = leads && isatty(STDERR_FILENO) != 0 && isatty(STDOUT_FILENO) != 0,
       .silent = !leads});
  MGT_RETURN_IF_ERROR(reporter.open(state.iteration));
  LoopHooks hooks;
  hooks.stop = options.stop;
  if (checkpoint_section.get<bool>("save")) {
    hooks.save = [&](const LoopState& at) -> Status {
      MGT_ASSIGN_OR_RETURN(const std::string saved,
                           transfer.save(checkpoints, at, experiment.config_text(),
                                         checkpoint_section.get<int64_t>("keep")));
      reporter.line(text(" saved checkpoint ", printable(saved)));
      if (folder) folder->keep_new();
      return {};
    };
  }
  MGT_ASSIGN_OR_RETURN(LoopResult result,
                       run_loop(*engine, *train_feed, valid_feed ? &*valid_feed : nullptr, loop,
                                state, reporter, hooks));
  // Without checkpoints, what a run has is its metrics.
  if (folder && !hooks.save && result.state.iteration > 0) folder->keep_new();
  inform(fmt::format(
      "memory: {:.3f} GiB planned, {:.3f} GiB peak of the process; waited {:.2f} s for data",
      gib(memory.total()), gib(peak_rss_bytes()), train_feed->waited_seconds()));
  return result;
}

}  // namespace megatron::train
