#include "train/rank_programs.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "passes/autodiff.hpp"
#include "passes/cleanup.hpp"
#include "passes/partition.hpp"
#include "passes/pipeline.hpp"
#include "passes/pipeline_cut.hpp"
#include "passes/split_actions.hpp"
#include "train/tied_gradients.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)
using passes::Place;
using passes::Placement;

class Builder {
 public:
  explicit Builder(const RankRequest& request) : request_(request), layout_(request.layout) {}

  Result<RankPrograms> run() {
    out_.coordinates = layout_.coordinates(request_.rank);
    out_.pipeline.micro_batches = request_.micro_batches;
    if (request_.train || request_.evaluate) MGT_RETURN_IF_ERROR(build_loss());
    if (request_.logits_length > 0) MGT_RETURN_IF_ERROR(build_logits());
    for (auto& p : out_.parameters) p.owned = owns(p.placement, p.name);
    return std::move(out_);
  }

 private:
  Status build_loss() {
    MGT_ASSIGN_OR_RETURN(const Program loss,
                         train::build_loss(request_.model, request_.micro_batch_size));
    MGT_RETURN_IF_ERROR(passes::check_divisible(layout_, loss));
    name_parameters(loss);
    out_.losses = loss.losses;
    MGT_RETURN_IF_ERROR(shape_pipeline(loss));
    if (request_.train) MGT_RETURN_IF_ERROR(build_training(loss));
    if (request_.evaluate) MGT_RETURN_IF_ERROR(build_evaluation(loss));
    for (const ValueId v : loss.inputs) {
      if (fields_.contains(loss.values[v].name)) out_.inputs.push_back(field(loss, v));
    }
    return {};
  }

  void name_parameters(const Program& model) {
    for (const auto& p : model.parameters) {
      const Value& value = model.values[p.value];
      out_.all_parameters.push_back({value.name, value.type});
      out_.parameter_count += model.type(p.value).elements();
    }
  }

  Status shape_pipeline(const Program& loss) {
    const auto axis = layout_.axis(layout_.pipeline_axis);
    out_.chunks.resize(1);
    if (!axis) return {};
    MGT_ASSIGN_OR_RETURN(cut_, passes::make_cut(layout_, passes::block_count(loss)));
    MGT_ASSIGN_OR_RETURN(out_.pipeline.kind, parse_schedule(layout_.pipeline.schedule));
    stage_rank_ = out_.coordinates[*axis];
    out_.pipeline.stages = cut_->ranks;
    out_.pipeline.chunks = layout_.pipeline.virtual_stages;
    out_.chunks.resize(static_cast<size_t>(out_.pipeline.chunks));
    return check_shape(out_.pipeline);
  }

  // ---- training
  Status build_training(const Program& loss) {
    MGT_RETURN_IF_ERROR(build_counts(loss));
    Program forward = loss;
    forward.name = "train";
    MGT_ASSIGN_OR_RETURN(const Program train, passes::differentiate(std::move(forward)));
    MGT_ASSIGN_OR_RETURN(const Program local, localize(train, false));
    for (const Node& node : train.nodes) out_.train_flops += flops_of(train, node);
    out_.schedule = schedule_of(out_.pipeline, stage_rank_);
    for (size_t c = 0; c < out_.chunks.size(); ++c) {
      MGT_ASSIGN_OR_RETURN(Program stage, chunk_of(local, c));
      list_tensors(stage, train);
      note_losses(stage);
      ChunkPrograms& chunk = out_.chunks[c];
      if (!cut_) {
        chunk.backward = std::move(stage);
        continue;
      }
      MGT_ASSIGN_OR_RETURN(
          auto actions,
          passes::split_actions(stage, out_.pipeline.kind == ScheduleKind::zero_bubble));
      chunk.forward = std::move(actions.forward);
      chunk.backward = std::move(actions.backward);
      chunk.weight = std::move(actions.weight);
    }
    MGT_RETURN_IF_ERROR(build_reduction(train, local));
    return request_.optimizer.table != nullptr ? build_optimizer(train) : Status();
  }

  // The loss program with the counts as its only results. Every stage of a pipeline computes them.
  Status build_counts(const Program& loss) {
    Program counts = loss;
    counts.name = "counts";
    for (const auto& term : counts.losses) counts.outputs.push_back({term.name, term.count});
    counts.losses.clear();
    MGT_RETURN_IF_ERROR(passes::eliminate_dead_nodes(counts));
    for (const Node& node : counts.nodes) {
      for (const ValueId v : node.inputs) {
        if (counts.values[v].kind != ValueKind::parameter) continue;
        return invalid_argument(
            text("the count of a loss term depends on parameter '", counts.values[v].name, "'"),
            "gradients are scaled by the count of the whole batch before the first backward pass",
            "compute the count from the program's inputs alone");
      }
    }
    MGT_ASSIGN_OR_RETURN(out_.counts, localize(drop_unused(std::move(counts)), false));
    MGT_RETURN_IF_ERROR(passes::run_passes(out_.counts, passes::optimisation_passes()));
    for (const auto& term : out_.losses)
      out_.counts_owned.push_back(stage_rank_ == 0 &&
                                  first_of(placements_.at("output." + term.name)));
    return {};
  }

  // Every stage reduces the gradients of what it holds; those of a tied parameter's uses elsewhere
  // come from there.
  Status build_reduction(const Program& train, const Program& local) {
    const std::set<std::string> held = held_parameters();
    MGT_ASSIGN_OR_RETURN(const Program reduce, build_reduce(train, held));
    MGT_ASSIGN_OR_RETURN(Program mine, localize(reduce, false));
    if (cut_) {
      const TiedUses uses = tied_uses(local, *cut_);
      MGT_RETURN_IF_ERROR(exchange_tied(mine, uses, cut_->axis, stage_rank_));
      for (const auto& [parameter, holders] : uses.holders)
        if (holders.front() < stage_rank_) held_earlier_.insert(parameter);
    }
    std::erase_if(mine.outputs, [&](const Output& norm) {
      return held_earlier_.contains(norm.name.substr(kNormPrefix.size()));
    });
    MGT_RETURN_IF_ERROR(passes::run_passes(mine, passes::optimisation_passes()));
    out_.reduce = drop_unused(std::move(mine));
    for (const auto& output : out_.reduce.outputs) {
      NormTerm term{output.name.substr(kNormPrefix.size()), output.value, {}};
      for (const Place& place : placements_.at("output." + output.name))
        term.adds.push_back(place.is(Place::Kind::partial));
      out_.norms.push_back(std::move(term));
    }
    std::map<std::string_view, const PersistentTensor*> gradients;
    for (const auto& g : out_.gradients) gradients.emplace(g.name, &g);
    const NameIndex names(train);
    for (const auto& parameter : held) place_reduced(train, names, gradients, parameter);
    return {};
  }

  std::set<std::string> held_parameters() const {
    std::set<std::string> out;
    for (const auto& p : out_.parameters) out.insert(p.name);
    return out;
  }

  // A reduced gradient takes the memory of its parameter's first use on this rank, where it fits.
  void place_reduced(const Program& train, const NameIndex& names,
                     const std::map<std::string_view, const PersistentTensor*>& gradients,
                     const std::string& parameter) {
    const std::string name = text(kReducedPrefix, parameter);
    const auto placement = placements_.find(name);
    if (placement == placements_.end()) return;  // a frozen parameter
    PersistentTensor tensor =
        make_tensor(name, train.type(names.find(parameter)), placement->second);
    for (const auto& use : gradient_states(names, parameter)) {
      const auto gradient = gradients.find(use);
      if (gradient == gradients.end() || gradient->second->local.dims != tensor.local.dims)
        continue;
      tensor.shares = use;
      break;
    }
    out_.reduced.push_back(std::move(tensor));
  }

  Status build_optimizer(const Program& train) {
    MGT_ASSIGN_OR_RETURN(const auto states, optimizer_states(train, request_.optimizer));
    const NameIndex names(train);
    for (const auto& s : states)
      out_.all_optimizer_states.push_back({s.name, train.type(names.find(s.parameter))});
    MGT_ASSIGN_OR_RETURN(const UpdateProgram update,
                         build_update(train, request_.optimizer, held_parameters()));
    MGT_ASSIGN_OR_RETURN(out_.update, localize(update.program, true));
    MGT_RETURN_IF_ERROR(passes::run_passes(out_.update, passes::optimisation_passes()));
    const NameIndex update_names(update.program);
    for (const auto& s : update.states) {
      PersistentTensor tensor = make_tensor(s.name, update.program.type(update_names.find(s.name)),
                                            placements_.at(s.name));
      tensor.init = {MGT_INIT_CONSTANT, s.initial, 0};
      tensor.owned = owns(tensor.placement, s.parameter);
      out_.optimizer_states.push_back(std::move(tensor));
    }
    return {};
  }

  Status build_evaluation(const Program& loss) {
    Program evaluate = loss;
    evaluate.name = "evaluate";
    MGT_RETURN_IF_ERROR(passes::strip_dropout(evaluate));
    MGT_ASSIGN_OR_RETURN(const Program local, localize(evaluate, false));
    for (size_t c = 0; c < out_.chunks.size(); ++c) {
      MGT_ASSIGN_OR_RETURN(Program stage, chunk_of(local, c));
      list_tensors(stage, loss);
      note_losses(stage);
      out_.chunks[c].evaluate = std::move(stage);
    }
    return {};
  }

  Status build_logits() {
    MGT_ASSIGN_OR_RETURN(Program logits,
                         train::build_logits(request_.model, request_.logits_length));
    for (const ValueId v : logits.inputs) out_.logits_inputs.push_back(field(logits, v));
    MGT_RETURN_IF_ERROR(passes::strip_dropout(logits));
    if (out_.all_parameters.empty()) name_parameters(logits);
    MGT_ASSIGN_OR_RETURN(out_.logits, localize(logits, true));
    MGT_RETURN_IF_ERROR(passes::run_passes(out_.logits, passes::optimisation_passes()));
    list_tensors(out_.logits, logits);
    return {};
  }

  // ---- what all of them share
  // This rank's program of all stages.
  Result<Program> localize(const Program& logical, bool whole_outputs) {
    passes::PartitionRequest request;
    request.layout = &layout_;
    request.coordinates = out_.coordinates;
    request.states = placements_;
    request.whole_outputs = whole_outputs;
    MGT_ASSIGN_OR_RETURN(auto local, passes::partition(logical, request));
    placements_.insert(local.placements.begin(), local.placements.end());
    // Before a cut: a message that nobody waits for would stay under way.
    MGT_RETURN_IF_ERROR(passes::eliminate_dead_nodes(local.program));
    return std::move(local.program);
  }

  // The part of a rank's program that a chunk runs, optimised.
  Result<Program> chunk_of(const Program& local, size_t chunk) {
    Program stage = local;
    if (cut_) {
      const int64_t number = static_cast<int64_t>(chunk) * cut_->ranks + stage_rank_;
      MGT_ASSIGN_OR_RETURN(stage, passes::cut_stage(local, *cut_, number));
    }
    MGT_RETURN_IF_ERROR(passes::run_passes(stage, passes::optimisation_passes()));
    for (const ValueId v : stage.inputs) fields_.emplace(field_of(stage.values[v].name));
    for (const ValueId v : out_.counts.inputs)
      fields_.emplace(field_of(out_.counts.values[v].name));
    return stage;
  }

  PersistentTensor make_tensor(const std::string& name, const Type& logical,
                               const Placement& placement) const {
    PersistentTensor tensor;
    tensor.name = name;
    tensor.logical = logical;
    tensor.local = passes::localize(layout_, out_.coordinates, logical, placement).type;
    tensor.placement = placement;
    tensor.runs = passes::local_runs(layout_, out_.coordinates, logical, placement);
    return tensor;
  }

  // Lists the parameters and gradients of a local program that are not known yet.
  void list_tensors(const Program& local, const Program& logical) {
    const NameIndex names(logical);
    const auto tensor = [&](const std::string& name) {
      return make_tensor(name, logical.type(names.find(name)), placements_.at(name));
    };
    for (const auto& p : local.parameters) {
      const std::string& name = local.values[p.value].name;
      if (!listed_.insert(name).second) continue;
      out_.parameters.push_back(tensor(name));
      out_.parameters.back().init = p.init;
    }
    for (const ValueId v : local.states) {
      const std::string& name = local.values[v].name;
      if (listed_.insert(name).second) out_.gradients.push_back(tensor(name));
    }
  }

  void note_losses(const Program& stage) {
    if (stage.losses.empty()) return;
    out_.losses_owned.clear();
    for (const auto& term : stage.losses) {
      const auto owned = [&](std::string_view part) {
        return first_of(placements_.at(text("loss.", term.name, part)));
      };
      out_.losses_owned.push_back({owned(".sum"), owned(".count")});
    }
  }

  // Ranks that differ on this axis alone hold the same numbers, unless they are shares of a sum:
  // whether this rank is the first of them.
  bool first_of(const Placement& placement) const {
    for (size_t m = 0; m < placement.size(); ++m) {
      const bool same = placement[m].is(Place::Kind::replicate);
      if (same && out_.coordinates[m] != 0 && layout_.axes[m].name != layout_.pipeline_axis)
        return false;
    }
    return true;
  }
  bool owns(const Placement& placement, const std::string& parameter) const {
    return first_of(placement) && !held_earlier_.contains(parameter);
  }

  const RankRequest& request_;
  const passes::Layout& layout_;
  std::optional<passes::PipelineCut> cut_;
  int64_t stage_rank_ = 0;
  std::map<std::string, Placement, std::less<>> placements_;
  std::set<std::string, std::less<>> fields_;
  std::set<std::string, std::less<>> listed_;        // parameters and gradients
  std::set<std::string, std::less<>> held_earlier_;  // parameters that an earlier stage holds too
  RankPrograms out_;
};

}  // namespace

std::string_view field_of(std::string_view input) { return input.substr(0, input.find('#')); }

std::string instance_axis(const passes::Layout& layout) {
  for (const auto& mapping : layout.mappings) {
    if (mapping.instances && layout.axis(mapping.mesh)) return mapping.mesh;
  }
  return {};
}

Result<RankPrograms> build_rank_programs(const RankRequest& request) {
  return Builder(request).run();
}

}  // namespace megatron::train
