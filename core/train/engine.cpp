#include "train/engine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/op.hpp"
#include "graph/rewrite.hpp"
#include "passes/autodiff.hpp"
#include "passes/cleanup.hpp"
#include "passes/partition.hpp"
#include "passes/pipeline.hpp"
#include "train/initialize.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

int64_t align_page(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// "tokens#1" is another placement of the field "tokens".
std::string_view field_of(std::string_view input) { return input.substr(0, input.find('#')); }

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineRequest& request) {
  std::unique_ptr<Engine> engine(new Engine(request));
  MGT_RETURN_IF_ERROR(engine->build());
  return engine;
}

Engine::~Engine() {
  if (arena_ != nullptr) request_.device.free(arena_);
}

Status Engine::build() {
  coordinates_ = request_.layout.coordinates(request_.rank);
  if (request_.train || request_.evaluate) {
    MGT_ASSIGN_OR_RETURN(Program loss,
                         build_model_program(request_.model, "loss", request_.micro_batch_size));
    if (loss.losses.empty()) {
      return invalid_argument("the model's program 'loss' has no loss term", {},
                              "call Builder::loss in the model plugin");
    }
    for (const ValueId v : loss.inputs) inputs_.push_back(loss.values[v]);
    for (const auto& l : loss.losses) {
      loss_names_.push_back(l.name);
      loss_weights_.push_back(l.weight);
    }
    if (request_.train) MGT_RETURN_IF_ERROR(build_training(loss));
    if (request_.evaluate) {
      Program eval = std::move(loss);
      eval.name = "eval";
      MGT_RETURN_IF_ERROR(passes::strip_dropout(eval));
      MGT_ASSIGN_OR_RETURN(eval_, compile(eval, false));
    }
  }
  if (request_.logits_length > 0) {
    MGT_ASSIGN_OR_RETURN(Program logits,
                         build_model_program(request_.model, "logits", 1, request_.logits_length));
    MGT_RETURN_IF_ERROR(passes::strip_dropout(logits));
    MGT_ASSIGN_OR_RETURN(logits_, compile(logits, true));
  }
  return allocate();
}

// The loss program with the counts as its only results.
Status Engine::build_counts(const Program& loss) {
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
  MGT_ASSIGN_OR_RETURN(counts_, compile(drop_unused(std::move(counts)), false));
  return {};
}

Status Engine::build_training(const Program& loss) {
  MGT_RETURN_IF_ERROR(build_counts(loss));
  Program forward = loss;
  forward.name = "train";
  MGT_ASSIGN_OR_RETURN(const Program train, passes::differentiate(std::move(forward)));
  MGT_ASSIGN_OR_RETURN(train_, compile(train, false));
  MGT_ASSIGN_OR_RETURN(const Program norm, build_gradient_norm(train));
  MGT_ASSIGN_OR_RETURN(norm_, compile(norm, true));
  if (request_.optimizer.table == nullptr) return {};
  MGT_ASSIGN_OR_RETURN(const UpdateProgram update, build_update(train, request_.optimizer));
  MGT_ASSIGN_OR_RETURN(update_, compile(update.program, true));
  for (auto& state : optimizer_states_) {
    const auto it = std::find_if(update.states.begin(), update.states.end(),
                                 [&](const OptimizerState& s) { return s.name == state.name; });
    MGT_CHECK(it != update.states.end(), state.name);
    initial_states_.push_back(it->initial);
  }
  return {};
}

Result<std::unique_ptr<runtime::Executable>> Engine::compile(const Program& logical,
                                                             bool whole_outputs) {
  passes::PartitionRequest request;
  request.layout = &request_.layout;
  request.coordinates = coordinates_;
  request.states = placements_;
  request.whole_outputs = whole_outputs;
  MGT_ASSIGN_OR_RETURN(auto partitioned, passes::partition(logical, request));
  MGT_RETURN_IF_ERROR(passes::run_passes(partitioned.program, passes::optimisation_passes()));
  remember(logical, partitioned.program, partitioned.placements);
  return runtime::Executable::compile(std::move(partitioned.program), request_.device,
                                      request_.collectives);
}

// Lists parameters and states when the first program names them.
void Engine::remember(const Program& logical, const Program& local,
                      const std::map<std::string, passes::Placement, std::less<>>& placements) {
  for (const Value& value : local.values) {
    if (value.kind != ValueKind::parameter && value.kind != ValueKind::state) continue;
    if (placements_.contains(value.name)) continue;
    const auto placement = placements.find(value.name);
    MGT_CHECK(placement != placements.end(), value.name);
    PersistentTensor tensor;
    tensor.name = value.name;
    tensor.logical = logical.values[logical.find(value.name)].type;
    tensor.local = value.type;
    tensor.placement = placement->second;
    tensor.runs =
        passes::local_runs(request_.layout, coordinates_, tensor.logical, tensor.placement);
    placements_[value.name] = placement->second;
    const bool gradient = value.name.starts_with(passes::kGradientPrefix);
    if (value.kind == ValueKind::parameter) {
      const auto p = std::find_if(
          local.parameters.begin(), local.parameters.end(),
          [&](const Parameter& q) { return local.values[q.value].name == value.name; });
      initializers_.push_back(p->init);
      parameters_.push_back(std::move(tensor));
    } else {
      (gradient ? gradients_ : optimizer_states_).push_back(std::move(tensor));
    }
  }
}

Status Engine::allocate() {
  const auto size = [](const std::vector<PersistentTensor>& tensors) {
    return std::accumulate(
        tensors.begin(), tensors.end(), int64_t{0},
        [](int64_t n, const PersistentTensor& t) { return n + align_page(t.local.bytes()); });
  };
  memory_ = {size(parameters_), size(gradients_), size(optimizer_states_), 0};
  const auto programs = {counts_.get(), train_.get(), norm_.get(),
                         update_.get(), eval_.get(),  logits_.get()};
  for (const auto* program : programs) {
    if (program != nullptr)
      memory_.scratch = std::max(memory_.scratch, align_page(program->plan().scratch_bytes));
  }
  MGT_ASSIGN_OR_RETURN(arena_, request_.device.allocate(static_cast<uint64_t>(memory_.total())));
  char* at = static_cast<char*>(arena_);
  runtime::Homes homes;
  for (auto* tensors : {&parameters_, &gradients_, &optimizer_states_}) {
    for (auto& tensor : *tensors) {
      tensor.home = at;
      homes[tensor.name] = at;
      at += align_page(tensor.local.bytes());
    }
  }
  // Padding must be zero and stay so; scratch needs no value.
  MGT_RETURN_IF_ERROR(
      request_.device.zero(arena_, static_cast<uint64_t>(at - static_cast<char*>(arena_))));
  for (auto* program : programs) {
    if (program != nullptr) MGT_RETURN_IF_ERROR(program->bind(at, homes));
  }
  return {};
}

Status Engine::initialize_parameters() {
  std::vector<float> local;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    local.resize(static_cast<size_t>(parameters_[i].local.elements()));
    initialize(initializers_[i], request_.seed, parameters_[i].name, parameters_[i].runs, local);
    MGT_RETURN_IF_ERROR(upload(parameters_[i], local));
  }
  for (size_t i = 0; i < optimizer_states_.size(); ++i) {
    local.resize(static_cast<size_t>(optimizer_states_[i].local.elements()));
    initialize({MGT_INIT_CONSTANT, initial_states_[i], 0}, 0, optimizer_states_[i].name,
               optimizer_states_[i].runs, local);
    MGT_RETURN_IF_ERROR(upload(optimizer_states_[i], local));
  }
  return {};
}

Status Engine::run(runtime::Executable& program, const Feed& feed, const mgt_rng_key& rng) {
  for (const ValueId v : program.program().inputs) {
    const void* data = feed(field_of(program.program().values[v].name));
    MGT_CHECK(data != nullptr, program.program().values[v].name);
    MGT_RETURN_IF_ERROR(program.feed(v, data));
  }
  return program.run(rng);
}

Status Engine::collect_losses(const runtime::Executable& program,
                              std::vector<LossValue>& losses) const {
  losses.clear();
  for (const auto& term : program.program().losses) {
    MGT_ASSIGN_OR_RETURN(const double sum, program.fetch_number(term.sum));
    MGT_ASSIGN_OR_RETURN(const double count, program.fetch_number(term.count));
    losses.push_back({term.name, sum, count, term.weight});
  }
  return {};
}

Status Engine::count_losses(const Feed& feed, std::vector<double>& counts) {
  MGT_RETURN_IF_ERROR(run(*counts_, feed, {request_.seed, 0, 0}));
  counts.clear();
  for (const auto& output : counts_->program().outputs) {
    MGT_ASSIGN_OR_RETURN(const double count, counts_->fetch_number(output.value));
    counts.push_back(count);
  }
  return {};
}

Status Engine::forward_backward(const Feed& feed, std::span<const double> seeds, bool first,
                                uint64_t step, int64_t sample_offset,
                                std::vector<LossValue>& losses) {
  MGT_CHECK(seeds.size() == loss_names_.size());
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::string name = text(passes::kGradSeedPrefix, loss_names_[i]);
    if (train_->has_scalar(name)) train_->set_scalar(name, seeds[i]);
  }
  if (train_->has_scalar(passes::kAccumulateScalar))
    train_->set_scalar(passes::kAccumulateScalar, first ? 0.0 : 1.0);
  MGT_RETURN_IF_ERROR(run(*train_, feed, {request_.seed, step, sample_offset}));
  return collect_losses(*train_, losses);
}

Result<double> Engine::gradient_norm() {
  MGT_RETURN_IF_ERROR(norm_->run({request_.seed, 0, 0}));
  MGT_ASSIGN_OR_RETURN(const double squared,
                       norm_->fetch_number(norm_->program().outputs[0].value));
  return std::sqrt(squared);
}

Status Engine::update(double clip_coefficient, double lr, double weight_decay, int64_t step) {
  const auto set = [&](std::string_view name, double value) {
    if (update_->has_scalar(name)) update_->set_scalar(name, value);
  };
  set(kClipScalar, clip_coefficient);
  set(kLrScalar, lr);
  set(kWeightDecayScalar, weight_decay);
  set(kStepScalar, static_cast<double>(step));
  return update_->run({request_.seed, static_cast<uint64_t>(step), 0});
}

Status Engine::evaluate(const Feed& feed, std::vector<LossValue>& losses) {
  MGT_RETURN_IF_ERROR(run(*eval_, feed, {request_.seed, 0, 0}));
  return collect_losses(*eval_, losses);
}

Status Engine::logits(std::span<const int32_t> tokens, std::vector<float>& out) {
  const auto length = static_cast<size_t>(request_.logits_length);
  MGT_CHECK(tokens.size() <= length);
  std::vector<int32_t> ids(length, 0);  // causal: what stands behind the last token changes nothing
  std::copy(tokens.begin(), tokens.end(), ids.begin());
  std::vector<int32_t> positions(length);
  std::iota(positions.begin(), positions.end(), 0);
  const auto feed = [&](std::string_view name) -> const void* {
    if (name == "tokens") return ids.data();
    return name == "position_ids" ? positions.data() : nullptr;
  };
  MGT_RETURN_IF_ERROR(run(*logits_, feed, {request_.seed, 0, 0}));
  // [1, length, rows in memory]: the vocabulary's padding stays behind.
  const Value& result = logits_->program().values[logits_->program().outputs[0].value];
  std::vector<float> padded(static_cast<size_t>(result.type.elements()));
  MGT_RETURN_IF_ERROR(logits_->fetch(logits_->program().outputs[0].value, padded.data()));
  const auto stride = static_cast<size_t>(result.type.dims.back().size);
  const auto vocab =
      result.maps.empty() ? stride : static_cast<size_t>(result.maps.back().global_size());
  out.clear();
  for (size_t t = 0; t < tokens.size(); ++t) {
    const auto row = padded.begin() + static_cast<std::ptrdiff_t>(t * stride);
    out.insert(out.end(), row, row + static_cast<std::ptrdiff_t>(vocab));
  }
  return {};
}

Status Engine::download(const PersistentTensor& tensor, std::span<float> local) const {
  MGT_CHECK(static_cast<int64_t>(local.size_bytes()) == tensor.local.bytes(), tensor.name);
  return request_.device.download(local.data(), tensor.home, local.size_bytes());
}

Status Engine::upload(const PersistentTensor& tensor, std::span<const float> local) const {
  MGT_CHECK(static_cast<int64_t>(local.size_bytes()) == tensor.local.bytes(), tensor.name);
  return request_.device.upload(tensor.home, local.data(), local.size_bytes());
}

int64_t Engine::parameter_count() const {
  return std::accumulate(
      parameters_.begin(), parameters_.end(), int64_t{0},
      [](int64_t n, const PersistentTensor& t) { return n + t.logical.elements(); });
}

double Engine::train_flops() const { return train_ != nullptr ? train_->flops() : 0; }

}  // namespace megatron::train
