#include "train/state_transfer.hpp"

#include <cstdlib>
#include <cstring>

namespace megatron::train {
namespace {

std::vector<int64_t> shape_of(const graph::Type& type) {
  std::vector<int64_t> shape;
  for (const auto& d : type.dims) shape.push_back(d.size);
  return shape;
}

}  // namespace

Result<std::string> StateTransfer::save(const std::string& directory, const LoopState& state,
                                        const std::string& config, int64_t keep) {
  checkpoint::Contents contents;
  for (const auto& t : engine_.parameters())
    contents.parameters.push_back({t.name, shape_of(t.logical)});
  for (const auto& t : engine_.optimizer_states())
    contents.optimizer_states.push_back({t.name, shape_of(t.logical)});
  contents.config = config;
  contents.read = [&](std::string_view name) { return read(name); };
  return checkpoint::save(directory, {state.iteration, state.consumed_samples}, contents, keep);
}

Status StateTransfer::load(const checkpoint::Checkpoint& from, bool with_optimizer) {
  for (const auto& t : engine_.parameters()) {
    MGT_RETURN_IF_ERROR(from.read_parameter(t.name, shape_of(t.logical), logical_));
    MGT_RETURN_IF_ERROR(write(t));
  }
  if (!with_optimizer) return {};
  for (const auto& t : engine_.optimizer_states()) {
    MGT_RETURN_IF_ERROR(from.read_optimizer_state(t.name, shape_of(t.logical), logical_));
    MGT_RETURN_IF_ERROR(write(t));
  }
  return {};
}

const PersistentTensor& StateTransfer::find(std::string_view name) const {
  for (const auto* list : {&engine_.parameters(), &engine_.optimizer_states()}) {
    for (const auto& t : *list) {
      if (t.name == name) return t;
    }
  }
  check_failed("tensor is known", __FILE__, __LINE__, name);
}

Result<std::span<const float>> StateTransfer::read(std::string_view name) {
  const PersistentTensor& t = find(name);
  local_.resize(static_cast<size_t>(t.local.elements()));
  MGT_RETURN_IF_ERROR(engine_.download(t, local_));
  logical_.assign(static_cast<size_t>(t.logical.elements()), 0.0F);
  for (const auto& run : t.runs) {
    std::memcpy(&logical_[static_cast<size_t>(run.logical_begin)],
                &local_[static_cast<size_t>(run.local_begin)],
                static_cast<size_t>(run.length) * sizeof(float));
  }
  return std::span<const float>(logical_);
}

Status StateTransfer::write(const PersistentTensor& t) {
  local_.assign(static_cast<size_t>(t.local.elements()), 0.0F);
  for (const auto& run : t.runs) {
    std::memcpy(&local_[static_cast<size_t>(run.local_begin)],
                &logical_[static_cast<size_t>(run.logical_begin)],
                static_cast<size_t>(run.length) * sizeof(float));
  }
  return engine_.upload(t, local_);
}

}  // namespace megatron::train
