#include "train/state_transfer.hpp"

#include "log/log.hpp"

namespace megatron::train {
namespace {

std::vector<int64_t> shape_of(const graph::Type& type) {
  std::vector<int64_t> shape;
  for (const auto& d : type.dims) shape.push_back(d.size);
  return shape;
}

std::vector<checkpoint::TensorShape> shapes_of(const std::vector<NamedType>& tensors) {
  std::vector<checkpoint::TensorShape> out;
  for (const auto& t : tensors) out.push_back({t.name, shape_of(t.type)});
  return out;
}

}  // namespace

checkpoint::Contents checkpoint_contents(const RankPrograms& programs) {
  return {shapes_of(programs.all_parameters), shapes_of(programs.all_optimizer_states)};
}

Status StateTransfer::agree(std::string_view step, Status status) {
  MGT_ASSIGN_OR_RETURN(const bool failed, engine_.any_rank(step, !status.ok()));
  if (!status.ok() || !failed) return status;
  return Status(Code::aborted, text("another rank could not finish: ", step));
}

Result<std::string> StateTransfer::save(const std::string& directory, const LoopState& state,
                                        const std::string& config, int64_t keep) {
  checkpoint::CheckpointWriter writer(directory, state, checkpoint_contents(engine_.programs()));
  auto folder = save(writer, config, keep);
  if (!folder.ok() && leads_) {  // half a checkpoint takes the space that a full disk lacks
    if (const Status removed = writer.discard(); !removed.ok()) log::warning(removed.message());
  }
  return folder;
}

Result<std::string> StateTransfer::save(checkpoint::CheckpointWriter& writer,
                                        const std::string& config, int64_t keep) {
  MGT_RETURN_IF_ERROR(agree("beginning a checkpoint", leads_ ? writer.begin() : Status()));
  MGT_RETURN_IF_ERROR(agree("writing a checkpoint", write_parts(writer)));
  std::string folder;
  Status committed;
  if (leads_) {
    auto result = writer.commit(config, keep, log::warning);
    if (result.ok())
      folder = *std::move(result);
    else
      committed = std::move(result).status();
  }
  MGT_RETURN_IF_ERROR(agree("committing a checkpoint", std::move(committed)));
  return folder;
}

Status StateTransfer::write_parts(checkpoint::CheckpointWriter& writer) {
  MGT_RETURN_IF_ERROR(writer.open());
  for (const auto* tensors : {&engine_.parameters(), &engine_.optimizer_states()}) {
    for (const auto& t : *tensors) {
      if (t.owned) MGT_RETURN_IF_ERROR(write(writer, t));
    }
  }
  return writer.sync();
}

Status StateTransfer::write(checkpoint::CheckpointWriter& writer, const PersistentTensor& t) {
  local_.resize(static_cast<size_t>(t.local.elements()));
  MGT_RETURN_IF_ERROR(engine_.download(t, local_));
  for (const auto& run : t.runs) {
    MGT_RETURN_IF_ERROR(writer.write(t.name, run.logical_begin,
                                     std::span(local_).subspan(static_cast<size_t>(run.local_begin),
                                                               static_cast<size_t>(run.length))));
  }
  return {};
}

Status StateTransfer::load(const checkpoint::Checkpoint& from, bool with_optimizer) {
  MGT_RETURN_IF_ERROR(from.check_fits(checkpoint_contents(engine_.programs()), with_optimizer));
  for (const auto& t : engine_.parameters()) {
    MGT_ASSIGN_OR_RETURN(const auto reader, from.parameter(t.name, shape_of(t.logical)));
    MGT_RETURN_IF_ERROR(read(reader, t));
  }
  if (!with_optimizer) return {};
  for (const auto& t : engine_.optimizer_states()) {
    MGT_ASSIGN_OR_RETURN(const auto reader, from.optimizer_state(t.name, shape_of(t.logical)));
    MGT_RETURN_IF_ERROR(read(reader, t));
  }
  return {};
}

Status StateTransfer::read(const checkpoint::TensorReader& from, const PersistentTensor& t) {
  local_.assign(static_cast<size_t>(t.local.elements()), 0.0F);
  for (const auto& run : t.runs) {
    MGT_RETURN_IF_ERROR(
        from.read(run.logical_begin, std::span(local_).subspan(static_cast<size_t>(run.local_begin),
                                                               static_cast<size_t>(run.length))));
  }
  return engine_.upload(t, local_);
}

}  // namespace megatron::train
