// `check`: all that `run` would refuse, without launching, and what the run will need.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/text_table.hpp"
#include "log/log.hpp"
#include "train/run_plan.hpp"
#include "train/train.hpp"

namespace megatron::cli {
namespace {

using train::RunPlan;
using train::StagePlan;

struct CheckArguments : ManifestArguments {
  bool json = false;
};

std::string mib(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

void print_lines(const std::vector<TableRow>& rows) {
  for (const auto& line : aligned_lines(rows)) std::cout << "  " << line << "\n";
}

// What a stage computes, of what the one that computes most does.
double balance(const RunPlan& plan, const StagePlan& stage) {
  double most = 0;
  for (const auto& s : plan.stages) most = std::max(most, s.flops);
  return most > 0 ? stage.flops / most : 1.0;
}

void print_plan(const RunPlan& plan) {
  const int64_t ranks = plan.layout.world_size();
  const std::string mesh = train::describe_mesh(plan.layout);
  std::cout << fmt::format("ranks: {}{}{}\n", ranks, mesh.empty() ? "" : " = ", mesh)
            << fmt::format("model: {} parameters\n", plan.parameters)
            << fmt::format("step: {} samples, {} micro-batches a data rank, {:.3f} TFLOP\n",
                           plan.global_batch_size, plan.micro_batches, plan.flops / 1e12);

  std::cout << "memory of a rank, MiB, and its work in a step\n";
  std::vector<TableRow> rows = {{"stage", "weights", "gradients", "optimizer", "activations",
                                 "scratch", "total", "parameters", "TFLOP", "of the most"}};
  for (const auto& s : plan.stages) {
    const auto& m = s.memory;
    rows.push_back({std::to_string(s.stage), mib(m.parameters), mib(m.gradients),
                    mib(m.optimizer_states), mib(m.activations), mib(m.scratch), mib(m.total()),
                    std::to_string(s.parameters), fmt::format("{:.4f}", s.flops / 1e12),
                    fmt::format("{:.0f} %", 100 * balance(plan, s))});
  }
  print_lines(rows);

  rows = {{"stage", "axis", "collective", "calls", "MiB"}};
  for (const auto& s : plan.stages) {
    for (const auto& t : s.traffic)
      rows.push_back(
          {std::to_string(s.stage), t.axis, t.op, std::to_string(t.calls), mib(t.bytes)});
  }
  if (rows.size() == 1) return;
  std::cout << "communication of a rank in a step\n";
  print_lines(rows);
}

nlohmann::ordered_json to_json(const RunPlan& plan) {
  nlohmann::ordered_json mesh = nlohmann::ordered_json::array();
  for (const auto& axis : plan.layout.axes)
    mesh.push_back({{"axis", axis.name}, {"size", axis.size}});
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const auto& s : plan.stages) {
    nlohmann::ordered_json traffic = nlohmann::ordered_json::array();
    for (const auto& t : s.traffic) {
      traffic.push_back(
          {{"axis", t.axis}, {"collective", t.op}, {"calls", t.calls}, {"bytes", t.bytes}});
    }
    stages.push_back({{"stage", s.stage},
                      {"rank", s.rank},
                      {"parameters", s.parameters},
                      {"memory_bytes",
                       {{"parameters", s.memory.parameters},
                        {"gradients", s.memory.gradients},
                        {"optimizer_states", s.memory.optimizer_states},
                        {"activations", s.memory.activations},
                        {"scratch", s.memory.scratch},
                        {"total", s.memory.total()}}},
                      {"flops", s.flops},
                      {"communication", traffic}});
  }
  return {{"ranks", plan.layout.world_size()},
          {"mesh", mesh},
          {"parameters", plan.parameters},
          {"global_batch_size", plan.global_batch_size},
          {"micro_batches", plan.micro_batches},
          {"flops", plan.flops},
          {"stages", stages}};
}

Status check(const CheckArguments& arguments, const Context& context) {
  std::optional<int64_t> ranks;
  if (arguments.ranks > 0) ranks = arguments.ranks;
  static auto& services = *new train::PoolServices;  // plugins stay loaded until the very end
  MGT_ASSIGN_OR_RETURN(plugin::Registry registry, open_registry(context, services));
  MGT_ASSIGN_OR_RETURN(auto experiment,
                       train::Experiment::load(arguments.manifest, arguments.overrides, registry,
                                               ranks.value_or(1) > 1));
  MGT_ASSIGN_OR_RETURN(const auto layout, experiment->layout(ranks));
  // As many threads a rank as if all ran on this host: kernels' workspaces grow with them.
  const auto threads = experiment->config().section("train").get<int64_t>("num_threads");
  MGT_RETURN_IF_ERROR(services.start(threads, 0, static_cast<uint32_t>(layout.world_size())));
  MGT_ASSIGN_OR_RETURN(
      const auto plan,
      train::plan_run(*experiment, layout, train::output_dir(*experiment, arguments.manifest),
                      std::nullopt, log::warning));
  if (arguments.json) {
    std::cout << to_json(plan).dump() << "\n";
  } else {
    print_plan(plan);
  }
  return {};
}

}  // namespace

void add_check(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand(
      "check", "Check an experiment without running it, and tell what it will need");
  add_manifest_arguments(*command, *arguments, "Ranks of the run, on any number of hosts");
  command->add_flag("--json", arguments->json,
                    "One JSON object; bytes and floating-point operations");
  command->callback([arguments, &context] {
    context.action = [arguments, &context] { return check(*arguments, context); };
  });
}

}  // namespace megatron::cli
