// The steps of an engine: which programs run on which micro-batch, and what ranks tell each other.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "passes/autodiff.hpp"
#include "train/engine.hpp"

namespace megatron::train {

using graph::ValueId;

Status Engine::run(Unit& unit, const Feed& feed, int64_t m, uint64_t step, size_t binding) {
  for (const auto& input : unit.inputs) {
    const auto* field = static_cast<const char*>(feed(m, input.field));
    MGT_CHECK(field != nullptr, input.field);
    if (!input.runs.empty()) {
      const auto bytes = static_cast<size_t>(unit.executable->program().type(input.value).bytes());
      staging_.assign(bytes, 0);
      for (const auto& run : input.runs) {
        std::memcpy(&staging_[static_cast<size_t>(run.local_begin) * input.element_size],
                    field + static_cast<size_t>(run.logical_begin) * input.element_size,
                    static_cast<size_t>(run.length) * input.element_size);
      }
      field = staging_.data();
    }
    MGT_RETURN_IF_ERROR(unit.executable->feed(input.value, field, binding));
  }
  const int64_t sample = global_micro_batch(m) * request_.micro_batch_size;
  return unit.executable->run({request_.seed, step, sample}, binding);
}

// The count of each loss term over the global batch.
Status Engine::count_losses(const Feed& feed, std::vector<double>& totals) {
  const size_t terms = programs_.losses.size();
  numbers_.assign(static_cast<size_t>(request_.micro_batches) * terms, 0.0);
  for (int64_t m = 0; m < request_.micro_batches; ++m) {
    MGT_RETURN_IF_ERROR(run(counts_, feed, m, 0, 0));
    const auto& outputs = counts_.executable->program().outputs;
    for (size_t i = 0; i < terms; ++i) {
      if (!programs_.counts_owned[i]) continue;
      MGT_ASSIGN_OR_RETURN(numbers_[static_cast<size_t>(m) * terms + i],
                           counts_.executable->fetch_number(outputs[i].value));
    }
  }
  MGT_RETURN_IF_ERROR(sums_.add("loss counts", numbers_, instance_axis_, gathered_));
  totals.assign(terms, 0.0);
  for (size_t k = 0; k < gathered_.size(); ++k) totals[k % terms] += gathered_[k];
  return {};
}

Status Engine::forward_backward(const Feed& feed, uint64_t step, std::vector<LossValue>& losses) {
  const size_t terms = programs_.losses.size();
  MGT_RETURN_IF_ERROR(count_losses(feed, totals_));
  // The gradient of each term's mean over the global batch; zero where nothing counts.
  for (auto& chunk : chunks_) {
    for (auto* unit : {&chunk.forward, &chunk.backward, &chunk.weight}) {
      for (size_t i = 0; *unit && i < terms; ++i) {
        const std::string& name = seed_scalars_[i];
        const double seed = totals_[i] > 0 ? programs_.losses[i].weight / totals_[i] : 0.0;
        if (unit->executable->has_scalar(name)) unit->executable->set_scalar(name, seed);
      }
    }
  }
  numbers_.assign(2 * static_cast<size_t>(request_.micro_batches) * terms, 0.0);
  for (const auto& action : programs_.schedule) MGT_RETURN_IF_ERROR(run_action(action, feed, step));
  losses.resize(terms);
  for (size_t i = 0; i < terms; ++i) losses[i].sum = losses[i].count = 0;
  return sum_losses(losses);
}

Status Engine::run_action(const PipelineAction& action, const Feed& feed, uint64_t step) {
  Chunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
  Unit& unit = action.kind == PipelineAction::Kind::forward    ? chunk.forward
               : action.kind == PipelineAction::Kind::backward ? chunk.backward
                                                               : chunk.weight;
  if (!unit) return {};
  const int64_t m = action.micro_batch;
  if (unit.executable->has_scalar(passes::kAccumulateScalar))
    unit.executable->set_scalar(passes::kAccumulateScalar, m == 0 ? 0.0 : 1.0);
  const auto slot = static_cast<size_t>(m % chunk.slots);
  if (Status status = run(unit, feed, m, step, slot); !status.ok())
    return std::move(status).context(text("in micro-batch ", m));  // the text only now
  return collect_losses(unit, m, slot);
}

// The losses of a micro-batch, where this program computes them and this rank's number counts.
Status Engine::collect_losses(const Unit& unit, int64_t m, size_t binding) {
  const auto& losses = unit.executable->program().losses;
  for (size_t i = 0; i < losses.size(); ++i) {
    const auto owned = programs_.losses_owned[i];
    double* at = &numbers_[2 * (static_cast<size_t>(m) * losses.size() + i)];
    if (owned.sum) {
      MGT_ASSIGN_OR_RETURN(at[0], unit.executable->fetch_number(losses[i].sum, binding));
    }
    if (owned.count) {
      MGT_ASSIGN_OR_RETURN(at[1], unit.executable->fetch_number(losses[i].count, binding));
    }
  }
  return {};
}

// Adds numbers_, by micro-batch, to the losses: in the order of the global batch.
Status Engine::sum_losses(std::vector<LossValue>& losses) {
  const size_t terms = programs_.losses.size();
  MGT_RETURN_IF_ERROR(sums_.add("losses", numbers_, instance_axis_, gathered_));
  for (size_t k = 0; k < gathered_.size(); k += 2) {
    LossValue& loss = losses[k / 2 % terms];
    if (loss.name.empty()) loss.name = programs_.losses[k / 2 % terms].name;
    loss.sum += gathered_[k];
    loss.count += gathered_[k + 1];
  }
  return {};
}

Result<bool> Engine::any_rank(std::string_view question, bool answer) {
  const double mine = answer ? 1 : 0;
  MGT_RETURN_IF_ERROR(sums_.add(question, {&mine, 1}, {}, gathered_));
  return gathered_[0] > 0;
}

Result<double> Engine::reduce_gradients() {
  const auto no_feed = [](int64_t, std::string_view) -> const void* { return nullptr; };
  MGT_RETURN_IF_ERROR(run(reduce_, no_feed, 0, 0, 0));
  MGT_RETURN_IF_ERROR(reduce_.executable->complete_sends());
  norms_.assign(programs_.all_parameters.size(), 0.0);
  for (size_t i = 0; i < programs_.norms.size(); ++i) {
    MGT_ASSIGN_OR_RETURN(norms_[norm_index_[i]],
                         reduce_.executable->fetch_number(programs_.norms[i].value));
  }
  // Over the pipeline last: until then only the stage that holds a parameter knows where the shares
  // of its norm are.
  const auto pipeline = request_.layout.axis(request_.layout.pipeline_axis);
  for (size_t m = request_.layout.axes.size(); m-- > 0;) {
    if (request_.layout.axes[m].size == 1 || m == pipeline) continue;
    adds_.assign(norms_.size(), false);
    for (size_t i = 0; i < programs_.norms.size(); ++i)
      adds_[norm_index_[i]] = programs_.norms[i].adds[m];
    MGT_RETURN_IF_ERROR(sums_.tree_add("gradient norms", m, adds_, norms_));
  }
  if (pipeline) {
    adds_.assign(norms_.size(), true);  // of one stage's number and zeros
    MGT_RETURN_IF_ERROR(sums_.tree_add("gradient norms", *pipeline, adds_, norms_));
  }
  double squared = 0;
  for (const double norm : norms_) squared += norm;
  return std::sqrt(squared);
}

Status Engine::update(double clip_coefficient, double lr, double weight_decay, int64_t step) {
  if (!update_) return {};
  const auto set = [&](std::string_view name, double value) {
    if (update_.executable->has_scalar(name)) update_.executable->set_scalar(name, value);
  };
  set(kClipScalar, clip_coefficient);
  set(kLrScalar, lr);
  set(kWeightDecayScalar, weight_decay);
  set(kStepScalar, static_cast<double>(step));
  return update_.executable->run({request_.seed, static_cast<uint64_t>(step), 0});
}

Status Engine::evaluate(const Feed& feed, std::vector<LossValue>& losses) {
  const size_t terms = programs_.losses.size();
  losses.resize(terms);
  numbers_.assign(2 * static_cast<size_t>(request_.micro_batches) * terms, 0.0);
  for (int64_t m = 0; m < request_.micro_batches; ++m) {
    for (auto& chunk : chunks_) {
      if (!chunk.evaluate) continue;
      MGT_RETURN_IF_ERROR(run(chunk.evaluate, feed, m, 0, 0));
      MGT_RETURN_IF_ERROR(collect_losses(chunk.evaluate, m, 0));
    }
  }
  for (auto& chunk : chunks_) {
    if (chunk.evaluate) MGT_RETURN_IF_ERROR(chunk.evaluate.executable->complete_sends());
  }
  return sum_losses(losses);
}

}  // namespace megatron::train
