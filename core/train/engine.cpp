#include "train/engine.hpp"

#include <algorithm>
#include <numeric>

#include "passes/autodiff.hpp"
#include "passes/split_actions.hpp"
#include "train/initialize.hpp"

namespace megatron::train {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

int64_t align_page(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

int64_t bytes_of(const std::vector<PersistentTensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& t : tensors) bytes += t.shares.empty() ? align_page(t.local.bytes()) : 0;
  return bytes;
}

// States that hold what a pass leaves for a later one, with their sizes.
std::map<std::string, int64_t> saved_values(std::initializer_list<const Program*> passes) {
  std::map<std::string, int64_t> out;
  for (const Program* program : passes) {
    for (const ValueId v : program->states) {
      const Value& value = program->values[v];
      if (value.name.starts_with(passes::kSavedPrefix)) out[value.name] = value.type.bytes();
    }
  }
  return out;
}

}  // namespace

Engine::Engine(const EngineRequest& request)
    : request_(request),
      instance_axis_(instance_axis(request.layout)),
      sums_(request_.layout, request.layout.coordinates(request.rank), request.collectives) {
  if (const auto axis = request_.layout.axis(instance_axis_)) {
    first_micro_batch_ = request_.layout.coordinates(request_.rank)[*axis] * request_.micro_batches;
  }
}

Result<std::unique_ptr<Engine>> Engine::plan(const EngineRequest& request) {
  std::unique_ptr<Engine> engine(new Engine(request));
  MGT_ASSIGN_OR_RETURN(engine->programs_, build_rank_programs(engine->request_));
  MGT_RETURN_IF_ERROR(engine->compile());
  engine->measure();
  return engine;
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineRequest& request) {
  MGT_ASSIGN_OR_RETURN(auto engine, plan(request));
  MGT_RETURN_IF_ERROR(engine->allocate());
  return engine;
}

Engine::~Engine() {
  if (arena_ != nullptr) request_.device.free(arena_);
}

Result<Engine::Unit> Engine::compile(const Program& program) const {
  Unit unit;
  if (program.nodes.empty()) return unit;
  MGT_ASSIGN_OR_RETURN(unit.executable, runtime::Executable::compile(program, request_.device,
                                                                     request_.collectives));
  const Program& p = unit.executable->program();
  for (const ValueId v : p.inputs) {
    const Value& value = p.values[v];
    Unit::Input input{v, std::string(field_of(value.name)), {}, dtype_size(value.type.dtype)};
    const bool whole = std::all_of(value.maps.begin(), value.maps.end(),
                                   [](const IndexMap& map) { return map.is_identity(); });
    if (!whole) input.runs = passes::runs_of(value.maps);
    unit.inputs.push_back(std::move(input));
  }
  return unit;
}

Status Engine::compile() {
  for (size_t c = 0; c < programs_.chunks.size(); ++c) {
    const ChunkPrograms& from = programs_.chunks[c];
    Chunk chunk;
    MGT_ASSIGN_OR_RETURN(chunk.forward, compile(from.forward));
    MGT_ASSIGN_OR_RETURN(chunk.backward, compile(from.backward));
    MGT_ASSIGN_OR_RETURN(chunk.weight, compile(from.weight));
    MGT_ASSIGN_OR_RETURN(chunk.evaluate, compile(from.evaluate));
    if (chunk.forward) chunk.slots = slots_of(programs_.schedule, static_cast<int64_t>(c));
    chunks_.push_back(std::move(chunk));
  }
  MGT_ASSIGN_OR_RETURN(counts_, compile(programs_.counts));
  MGT_ASSIGN_OR_RETURN(reduce_, compile(programs_.reduce));
  MGT_ASSIGN_OR_RETURN(update_, compile(programs_.update));
  MGT_ASSIGN_OR_RETURN(logits_, compile(programs_.logits));
  for (const auto& term : programs_.losses)
    seed_scalars_.push_back(text(passes::kGradSeedPrefix, term.name));
  std::map<std::string_view, size_t> order;
  for (const auto& parameter : programs_.all_parameters)
    order.emplace(parameter.name, order.size());
  for (const auto& norm : programs_.norms) norm_index_.push_back(order.at(norm.parameter));
  return {};
}

void Engine::each_unit(const std::function<void(const Unit&)>& body) const {
  const auto visit = [&](const Unit& unit) {
    if (unit) body(unit);
  };
  for (const auto& c : chunks_) {
    for (const auto* unit : {&c.forward, &c.backward, &c.weight, &c.evaluate}) visit(*unit);
  }
  for (const auto* unit : {&counts_, &reduce_, &update_, &logits_}) visit(*unit);
}

void Engine::measure() {
  const RankPrograms& p = programs_;
  memory_.parameters = bytes_of(p.parameters);
  memory_.gradients = bytes_of(p.gradients) + bytes_of(p.reduced);
  memory_.optimizer_states = bytes_of(p.optimizer_states);
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const ChunkPrograms& passes = p.chunks[c];
    for (const auto& [name, bytes] :
         saved_values({&passes.forward, &passes.backward, &passes.weight}))
      memory_.activations += chunks_[c].slots * align_page(bytes);
  }
  each_unit([&](const Unit& unit) {
    memory_.scratch = std::max(memory_.scratch, align_page(unit.executable->plan().scratch_bytes));
  });
}

// One arena: weights, gradients, optimizer states, activations in flight, and the scratch that all
// programs use in turn.
Status Engine::allocate() {
  RankPrograms& p = programs_;
  MGT_ASSIGN_OR_RETURN(arena_, request_.device.allocate(static_cast<uint64_t>(memory_.total())));

  char* at = static_cast<char*>(arena_);
  runtime::Homes homes;
  for (auto* tensors : {&p.parameters, &p.gradients, &p.reduced, &p.optimizer_states}) {
    for (auto& tensor : *tensors) {
      tensor.home = tensor.shares.empty() ? at : homes.at(tensor.shares);
      homes[tensor.name] = tensor.home;
      if (tensor.shares.empty()) at += align_page(tensor.local.bytes());
    }
  }
  char* const scratch = static_cast<char*>(arena_) + memory_.total() - memory_.scratch;
  // Padding must be zero and stay so; scratch needs no value.
  MGT_RETURN_IF_ERROR(
      request_.device.zero(arena_, static_cast<uint64_t>(scratch - static_cast<char*>(arena_))));
  for (size_t c = 0; c < chunks_.size(); ++c) {
    Chunk& chunk = chunks_[c];
    const auto saved =
        saved_values({&p.chunks[c].forward, &p.chunks[c].backward, &p.chunks[c].weight});
    for (int64_t slot = 0; slot < chunk.slots; ++slot) {
      for (const auto& [name, bytes] : saved) {
        homes[name] = at;
        at += align_page(bytes);
      }
      for (auto* unit : {&chunk.forward, &chunk.backward, &chunk.weight}) {
        if (*unit) MGT_RETURN_IF_ERROR(unit->executable->bind(scratch, homes).status());
      }
    }
    if (chunk.evaluate)
      MGT_RETURN_IF_ERROR(chunk.evaluate.executable->bind(scratch, homes).status());
  }
  for (auto* unit : {&counts_, &reduce_, &update_, &logits_}) {
    if (*unit) MGT_RETURN_IF_ERROR(unit->executable->bind(scratch, homes).status());
  }
  return {};
}

Status Engine::initialize_parameters() {
  std::vector<float> local;
  for (const auto* tensors : {&programs_.parameters, &programs_.optimizer_states}) {
    for (const auto& tensor : *tensors) {
      local.resize(static_cast<size_t>(tensor.local.elements()));
      initialize(tensor.init, request_.seed, tensor.name, tensor.runs, local);
      MGT_RETURN_IF_ERROR(upload(tensor, local));
    }
  }
  return {};
}

Status Engine::logits(std::span<const int32_t> tokens, std::vector<float>& out) {
  const auto length = static_cast<size_t>(request_.logits_length);
  MGT_CHECK(tokens.size() <= length);
  std::vector<int32_t> ids(length, 0);  // causal: what stands behind the last token changes nothing
  std::copy(tokens.begin(), tokens.end(), ids.begin());
  std::vector<int32_t> positions(length);
  std::iota(positions.begin(), positions.end(), 0);
  const auto sequence = [&](std::string_view name) -> const std::vector<int32_t>& {
    return name == kTokensField ? ids : positions;
  };
  for (const Field& input : programs_.logits_inputs)
    MGT_RETURN_IF_ERROR(check_ids(input, sequence(input.name)));
  const auto feed = [&](int64_t, std::string_view name) { return sequence(name).data(); };
  MGT_RETURN_IF_ERROR(run(logits_, feed, 0, 0, 0));
  // [1, length, rows in memory]: the vocabulary's padding stays behind.
  const Program& program = logits_.executable->program();
  const Value& result = program.values[program.outputs[0].value];
  std::vector<float> padded(static_cast<size_t>(result.type.elements()));
  MGT_RETURN_IF_ERROR(logits_.executable->fetch(program.outputs[0].value, padded.data()));
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

std::vector<Engine::Work> Engine::step_work() const {
  std::vector<Work> out;
  const auto add = [&](const Unit& unit, int64_t runs) {
    if (unit) out.push_back({unit.executable.get(), runs});
  };
  for (const auto& c : chunks_) {
    for (const auto* unit : {&c.forward, &c.backward, &c.weight})
      add(*unit, request_.micro_batches);
  }
  add(counts_, request_.micro_batches);
  add(reduce_, 1);
  add(update_, 1);
  return out;
}

}  // namespace megatron::train
