#include "train/run_start.hpp"

#include "config/changes.hpp"
#include "train/generate.hpp"

namespace megatron::train {
namespace {

// Keys that say what is trained, how and on what; others may change from one start to the next.
bool shapes_the_curve(const std::string& section, const std::string& key) {
  if (section == "train")
    return key == "seed" || key == "global_batch_size" || key == "train_iters";
  if (section == "data") return key != "cache_dir";
  return section == "model" || section == "tokenizer" || section == "optimizer";
}

}  // namespace

bool RunStart::finished(int64_t train_iters) const {
  return resumes && from->progress().iteration >= train_iters && !from->progress().evaluation_due;
}

Result<RunStart> open_start(const Experiment& experiment, const std::string& checkpoints,
                            bool resume, const std::function<void(std::string_view)>& warn) {
  RunStart start;
  start.resumes = resume;
  const auto& section = experiment.config().section("checkpoint");
  const std::string load = section.has("load") ? section.get<std::string>("load") : "";
  if (resume) {
    MGT_ASSIGN_OR_RETURN(start.from, checkpoint::Checkpoint::open_newest(checkpoints, warn));
  } else if (!load.empty()) {
    MGT_ASSIGN_OR_RETURN(start.from, open_checkpoint(load, warn));
  }
  return start;
}

Result<std::string> describe_changes(const RunStart& start, const Experiment& experiment) {
  const std::string& folder = start.from->folder();
  MGT_ASSIGN_OR_RETURN(const auto before, config::Manifest::load(folder + "/config.toml"));
  std::string out;
  for (const auto& change : config::changes(before, experiment.config(), shapes_the_curve))
    out += text("\n  ", change);
  if (out.empty()) return out;
  return text("the run goes on with other settings than ", folder, " was written with:", out);
}

}  // namespace megatron::train
