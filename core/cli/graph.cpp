// `graph dump`: the programs that a rank of a run executes.
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/numbers.hpp"
#include "graph/text.hpp"
#include "launch/environment.hpp"
#include "train/run_plan.hpp"
#include "train/run_request.hpp"

namespace megatron::cli {
namespace {

struct DumpArguments : ManifestArguments {
  int64_t rank = 0;
};

void print(std::string_view title, const graph::Program& program) {
  if (program.nodes.empty()) return;
  std::cout << "\n# " << title << "\n" << graph::print(program);
}

void print(const train::RankPrograms& programs) {
  print("counts of the loss terms, of every micro-batch", programs.counts);
  for (size_t c = 0; c < programs.chunks.size(); ++c) {
    const auto& chunk = programs.chunks[c];
    const auto of_chunk = [&](std::string_view pass) {
      return programs.chunks.size() == 1 ? std::string(pass) : text("chunk ", c, ": ", pass);
    };
    const bool whole = chunk.forward.nodes.empty();
    print(of_chunk("forward pass"), chunk.forward);
    print(of_chunk(whole ? "forward and backward pass" : "backward pass"), chunk.backward);
    print(of_chunk("gradients of weights"), chunk.weight);
    print(of_chunk("evaluation"), chunk.evaluate);
  }
  print("reduction of the gradients", programs.reduce);
  print("optimizer", programs.update);
}

Status dump(const DumpArguments& arguments, const Context& context) {
  std::optional<int64_t> ranks;
  if (arguments.ranks > 0) ranks = arguments.ranks;
  static auto& services = *new train::PoolServices;  // plugins stay loaded until the very end
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, services));
  MGT_ASSIGN_OR_RETURN(auto experiment,
                       train::Experiment::load(arguments.manifest, arguments.overrides, registry,
                                               ranks.value_or(1) > 1));
  MGT_ASSIGN_OR_RETURN(const auto layout, experiment->layout(ranks));
  if (arguments.rank >= layout.world_size()) {
    return invalid_argument(text("there is no rank ", arguments.rank),
                            text("the layout has ", layout.world_size(), " ranks, from 0"),
                            "give a --rank of the run, or the run's --ranks");
  }
  MGT_ASSIGN_OR_RETURN(const auto loop, train::loop_options(*experiment, layout));
  MGT_ASSIGN_OR_RETURN(auto request, train::rank_request(*experiment, layout, loop));
  request.rank = arguments.rank;
  MGT_ASSIGN_OR_RETURN(const auto programs, train::build_rank_programs(request));
  std::cout << "# rank " << arguments.rank << " of " << layout.world_size();
  for (size_t m = 0; m < layout.axes.size(); ++m)
    std::cout << (m == 0 ? ": " : " · ") << layout.axes[m].name << " " << programs.coordinates[m];
  std::cout << "\n";
  print(programs);
  return {};
}

}  // namespace

void add_graph(CLI::App& app, Context& context) {
  CLI::App* group = app.add_subcommand("graph", "Look at what an experiment is compiled to");
  group->require_subcommand(1);
  auto arguments = std::make_shared<DumpArguments>();
  CLI::App* command = group->add_subcommand("dump", "Print the programs that a rank executes");
  add_manifest_arguments(*command, *arguments, "Ranks of the run");
  add_integer(*command, "--rank", arguments->rank, 0, launch::kMaxRanks - 1, "Whose programs");
  command->callback([arguments, &context] {
    context.action = [arguments, &context] { return dump(*arguments, context); };
  });
}

}  // namespace megatron::cli
