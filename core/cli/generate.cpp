// `generate`: text from a checkpoint.
#include <iostream>
#include <limits>
#include <memory>

#include "cli/command.hpp"
#include "cli/numbers.hpp"
#include "log/log.hpp"
#include "train/generate.hpp"

namespace megatron::cli {
namespace {

constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

struct GenerateArguments {
  std::string checkpoint;
  std::vector<std::string> overrides;
  bool greedy = false;
  train::GenerateOptions options;
};

Status run_generate(const GenerateArguments& arguments, const Context& context) {
  static auto& services = *new train::PoolServices;  // plugins stay loaded until the very end
  MGT_ASSIGN_OR_RETURN(const auto checkpoint,
                       train::open_checkpoint(arguments.checkpoint, log::warning));
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, services));
  MGT_ASSIGN_OR_RETURN(
      auto experiment,
      train::Experiment::load(checkpoint.folder() + "/config.toml", arguments.overrides, registry));
  auto options = arguments.options;
  if (arguments.greedy) options.sampling.top_k = 1;
  MGT_RETURN_IF_ERROR(
      train::generate(*experiment, services, checkpoint, options,
                      [](std::string_view bytes) { std::cout << bytes << std::flush; }));
  std::cout << "\n";
  return {};
}

}  // namespace

void add_generate(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Generate text from a checkpoint");
  command
      ->add_option("checkpoint", arguments->checkpoint,
                   "A checkpoint, or a run's output folder (its newest one)")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--prompt", arguments->options.prompt, "Text to continue")->type_name("TEXT");
  add_integer(*command, "--tokens", arguments->options.tokens, 1, kMostTokens,
              "Tokens to generate");
  auto& sampling = arguments->options.sampling;
  add_real(*command, "--temperature", sampling.temperature, 0, kFinite,
           "Divides the logits; 0 = greedy");
  add_integer(*command, "--top-k", sampling.top_k, 0, kNoMaximum,
              "Draw from the N most likely tokens; 0 = all");
  add_real(*command, "--top-p", sampling.top_p, 0, 1,
           "Draw from the fewest tokens of this probability; 0 = all");
  add_integer(*command, "--seed", sampling.seed, 0, kNoMaximum, "Of the draws");
  command->add_flag("--greedy", arguments->greedy, "Always the most likely token");
  command
      ->add_option("--set", arguments->overrides,
                   "Override a value of the checkpoint's config.toml")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  command->callback([arguments, &context] {
    context.action = [arguments, &context] { return run_generate(*arguments, context); };
  });
}

}  // namespace megatron::cli
