// `run`: trains what a manifest describes.
#include <csignal>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/stop_signals.hpp"
#include "launch/local_launcher.hpp"
#include "log/log.hpp"
#include "train/run_plan.hpp"
#include "train/train.hpp"

namespace megatron::cli {
namespace {

struct RunArguments : ManifestArguments {
  bool print_config = false;
  train::RunOptions options;
};

// The first signal asks the loop to finish its iteration, save and return. Of the ranks of a run
// one says that it has heard.
const std::atomic<bool>& stop_when_asked(bool says) {
  std::signal(SIGPIPE, SIG_IGN);  // training goes on when nobody reads its output any more
  return stop_on_signals(
      says ? "stopping: the iteration is finished first; another signal ends the process at once\n"
           : "",
      Waits::restarted);
}

void report(const train::Experiment& experiment, const train::LoopResult& result,
            const std::string& directory, bool resumed) {
  log::info(text(result.stopped ? "stopped by a signal after iteration " : "finished iteration ",
                 result.state.iteration, "; files of the run: ", directory));
  if (!result.stopped) return;
  const bool saved =
      result.state.iteration > 0 && experiment.config().section("checkpoint").get<bool>("save");
  if (saved) {
    log::info("continue with --resume");
  } else if (resumed) {
    log::info("nothing was saved: --resume continues where this run did");
  } else {
    log::info("nothing was saved: start anew with --overwrite");
  }
}

// Starts this command once for each rank of the layout.
Status launch(train::Experiment& experiment, const passes::Layout& layout,
              const std::string& directory, const train::RunOptions& options,
              const Context& context) {
  MGT_RETURN_IF_ERROR(train::plan_run(experiment, layout, directory, options.use(),
                                      [](std::string_view) {})  // rank 0 will say it
                          .status());
  if (options.stop->load()) {
    log::info("stopped by a signal before the first rank was started");
    return Status(Code::cancelled, "");
  }
  launch::LocalLaunch request;
  request.command = context.command_line;
  request.ranks = static_cast<uint32_t>(layout.world_size());
  request.stop = options.stop;
  return launch::launch_local(request);
}

Status run(const RunArguments& arguments, const Context& context) {
  MGT_ASSIGN_OR_RETURN(const auto info, launch::detect_rank(launch::process_environment()));
  std::optional<int64_t> ranks;
  if (info) ranks = info->world_size;
  if (!info && arguments.ranks > 0) ranks = arguments.ranks;

  static auto& services = *new train::PoolServices;  // plugins stay loaded until the very end
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, services));
  MGT_ASSIGN_OR_RETURN(auto experiment,
                       train::Experiment::load(arguments.manifest, arguments.overrides, registry,
                                               ranks.value_or(1) > 1));
  if (arguments.print_config) {
    std::cout << experiment->config_text();
    return {};
  }
  MGT_ASSIGN_OR_RETURN(const auto layout, experiment->layout(ranks));
  const std::atomic<bool>& stop =
      stop_when_asked(info ? info->rank == 0 : layout.world_size() == 1);
  auto options = arguments.options;
  options.stop = &stop;
  const std::string directory = train::output_dir(*experiment, arguments.manifest);
  if (!info && layout.world_size() > 1)
    return launch(*experiment, layout, directory, options, context);

  std::unique_ptr<train::Cluster> cluster;
  if (layout.world_size() > 1) {
    MGT_ASSIGN_OR_RETURN(cluster, train::Cluster::join(*info));
  }
  auto result =
      train::run_experiment(*experiment, services, layout, cluster.get(), directory, options);
  if (result.ok() && (cluster == nullptr || info->rank == 0))
    report(*experiment, *result, directory, options.resume);
  const bool stopped = result.ok() && result->stopped;
  Status status = result.ok() ? Status() : std::move(result).status();
  if (cluster != nullptr) status = cluster->leave(std::move(status));
  return status.ok() && stopped ? Status(Code::cancelled, "") : status;  // it was reported
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Train the experiment of a manifest");
  add_manifest_arguments(*command, *arguments, "Processes to start on this host");
  command->add_flag("--print-config", arguments->print_config,
                    "Print every value and where it came from, and stop");
  auto* resume = command->add_flag("--resume", arguments->options.resume,
                                   "Continue from the newest checkpoint of output_dir");
  command
      ->add_flag("--overwrite", arguments->options.overwrite,
                 "Start anew in an output_dir that holds a run")
      ->excludes(resume);
  command->callback([arguments, &context] {
    context.action = [arguments, &context] { return run(*arguments, context); };
  });
}

}  // namespace megatron::cli
