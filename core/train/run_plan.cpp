#include "train/run_plan.hpp"

#include <algorithm>

#include "graph/op.hpp"
#include "train/run_request.hpp"
#include "train/run_start.hpp"
#include "train/state_transfer.hpp"

namespace megatron::train {
namespace {

Status add_traffic(const graph::Program& program, int64_t runs, std::vector<Traffic>& traffic) {
  for (const auto& node : program.nodes) {
    if (!node.op->communicates) continue;
    int64_t bytes = 0;
    for (const auto* values : {&node.inputs, &node.outputs})
      for (const auto v : *values) bytes = std::max(bytes, program.type(v).bytes());
    const std::string axis = graph::string_attr(node.attrs, "axis");
    auto row = std::find_if(traffic.begin(), traffic.end(), [&](const Traffic& t) {
      return t.axis == axis && t.op == node.op->name;
    });
    if (row == traffic.end()) row = traffic.insert(row, {axis, std::string(node.op->name)});
    row->calls += runs;
    if (__builtin_mul_overflow(runs, bytes, &bytes) ||
        __builtin_add_overflow(row->bytes, bytes, &row->bytes))
      return invalid_argument(text("a step moves more than 2^63 bytes over axis '", axis, "'"),
                              text("most of them in ", row->op), "lower the model's sizes");
  }
  return {};
}

Result<StagePlan> plan_stage(const Engine& engine) {
  StagePlan plan;
  plan.memory = engine.memory();
  for (const auto& p : engine.parameters()) plan.parameters += p.local.elements();
  for (const auto& work : engine.step_work()) {
    plan.flops += work.executable->flops() * static_cast<double>(work.runs);
    MGT_RETURN_IF_ERROR(add_traffic(work.executable->program(), work.runs, plan.traffic));
  }
  std::sort(plan.traffic.begin(), plan.traffic.end(),
            [](const Traffic& a, const Traffic& b) { return a.bytes > b.bytes; });
  return plan;
}

// Those of a stage that others do not read.
void add_fields(const std::vector<Field>& of_stage, std::vector<Field>& fields) {
  for (const Field& field : of_stage) {
    const bool known = std::any_of(fields.begin(), fields.end(),
                                   [&](const Field& f) { return f.name == field.name; });
    if (!known) fields.push_back(field);
  }
}

}  // namespace

Result<RunPlan> plan_run(Experiment& experiment, const passes::Layout& layout,
                         const std::string& directory, std::optional<RunFolder::Use> use,
                         const RunFolder::Warn& warn) {
  MGT_ASSIGN_OR_RETURN(const LoopOptions loop, loop_options(experiment, layout));
  EngineRequest request;
  MGT_ASSIGN_OR_RETURN(static_cast<RankRequest&>(request), rank_request(experiment, layout, loop));
  MGT_ASSIGN_OR_RETURN(request.device, experiment.device());
  RunPlan plan;
  plan.layout = layout;
  plan.global_batch_size = loop.global_batch_size;
  plan.micro_batches = request.micro_batches;
  std::vector<Field> fields;
  checkpoint::Contents contents;
  const auto pipeline = layout.axis(layout.pipeline_axis);
  for (int64_t rank = 0; rank < layout.world_size(); ++rank) {
    const auto at = layout.coordinates(rank);
    bool first = true;  // on every axis but the pipeline's
    for (size_t m = 0; m < at.size(); ++m) first = first && (at[m] == 0 || m == pipeline);
    if (!first) continue;
    request.rank = rank;
    MGT_ASSIGN_OR_RETURN(const auto engine, Engine::plan(request));
    add_fields(engine->inputs(), fields);
    MGT_ASSIGN_OR_RETURN(StagePlan stage, plan_stage(*engine));
    stage.rank = rank;
    stage.stage = pipeline ? at[*pipeline] : 0;
    plan.stages.push_back(std::move(stage));
    contents = checkpoint_contents(engine->programs());
    plan.parameters = engine->programs().parameter_count;
    plan.flops = engine->programs().train_flops *
                 static_cast<double>(loop.global_batch_size / loop.micro_batch_size);
  }
  MGT_RETURN_IF_ERROR(open_datasets(experiment, loop, fields).status());
  MGT_RETURN_IF_ERROR(experiment.check_options_read());
  MGT_RETURN_IF_ERROR(RunFolder::check(directory, use, warn));
  MGT_ASSIGN_OR_RETURN(const bool settled, RunFolder::settled(directory));
  if (!settled) return plan;  // what the run would start from may have to be moved there first
  MGT_ASSIGN_OR_RETURN(const RunStart start, open_start(experiment, directory + "/checkpoints",
                                                        use == RunFolder::Use::resume, warn));
  if (start.from && !start.finished(loop.train_iters))
    MGT_RETURN_IF_ERROR(start.from->check_fits(contents, start.resumes));
  return plan;
}

std::string describe_mesh(const passes::Layout& layout) {
  std::string out;
  for (const auto& axis : layout.axes) {
    if (axis.size > 1) out += text(out.empty() ? "" : " · ", axis.name, " ", axis.size);
  }
  return out;
}

}  // namespace megatron::train
