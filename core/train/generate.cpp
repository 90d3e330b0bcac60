#include "train/generate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "train/state_transfer.hpp"

namespace megatron::train {

namespace fs = std::filesystem;

Result<checkpoint::Checkpoint> open_checkpoint(const std::string& path,
                                               const std::function<void(std::string_view)>& warn) {
  MGT_ASSIGN_OR_RETURN(const bool is_one, checkpoint::Checkpoint::is_one(path));
  if (is_one) return checkpoint::Checkpoint::open(path);
  const std::string below = path + "/checkpoints";
  std::error_code error;
  return checkpoint::Checkpoint::open_newest(fs::exists(below, error) ? below : path, warn);
}

Status generate(Experiment& experiment, PoolServices& services,
                const checkpoint::Checkpoint& checkpoint, const GenerateOptions& options,
                const std::function<void(std::string_view)>& emit) {
  MGT_ASSIGN_OR_RETURN(const auto tokenizer, experiment.tokenizer());
  if (!tokenizer) {
    return invalid_argument(text("checkpoint '", checkpoint.folder(), "' has no tokenizer"),
                            "its config.toml has no [tokenizer] section",
                            "name the tokenizer of the training data: --set tokenizer.plugin=NAME");
  }
  std::vector<int32_t> ids;
  int64_t eod = -1;
  MGT_RETURN_IF_ERROR(from_abi(guarded([&] {  // the view throws what the plugin reports
    tokenizer->encode(options.prompt, ids);
    eod = tokenizer->special_tokens().eod;
  })));
  if (ids.empty() && eod >= 0) ids.push_back(static_cast<int32_t>(eod));  // the start of a document
  if (ids.empty())
    return invalid_argument("the prompt is empty",
                            "the tokenizer has no end-of-document id to start from",
                            "give --prompt");

  MGT_RETURN_IF_ERROR(
      services.start(experiment.config().section("train").get<int64_t>("num_threads")));
  const auto& model = experiment.config().section("model");
  int64_t window = static_cast<int64_t>(ids.size()) + options.tokens;
  if (model.find("seq_length") != nullptr)
    window = std::min(window, model.get<int64_t>("seq_length"));
  EngineRequest request;
  MGT_ASSIGN_OR_RETURN(request.model, experiment.model());
  MGT_ASSIGN_OR_RETURN(request.device, experiment.device());
  request.layout = experiment.single_layout();
  request.train = false;
  request.evaluate = false;
  request.logits_length = window;
  MGT_ASSIGN_OR_RETURN(auto engine, Engine::create(request));
  MGT_RETURN_IF_ERROR(StateTransfer(*engine).load(checkpoint, false));

  emit(options.prompt);
  std::vector<float> logits;
  const auto vocab = [&](size_t tokens) { return logits.size() / tokens; };
  for (int64_t n = 0; n < options.tokens; ++n) {
    const size_t seen = std::min(ids.size(), static_cast<size_t>(window));
    MGT_RETURN_IF_ERROR(engine->logits(std::span(ids).last(seen), logits));
    const auto last = std::span<const float>(logits).last(vocab(seen));
    if (!std::all_of(last.begin(), last.end(), [](float x) { return std::isfinite(x); })) {
      return Status::error(
          Code::failed_precondition, text("token ", n + 1, " cannot be chosen"),
          "the model's logits are not finite",
          text("look at the weights of '", checkpoint.folder(), "': the run may have diverged"));
    }
    const int32_t next = sample_token(last, options.sampling, static_cast<int64_t>(ids.size()));
    if (next == eod) break;
    ids.push_back(next);
    // What the token adds to the one before: some tokenizers put a space between them.
    MGT_RETURN_IF_ERROR(from_abi(guarded([&] {
      const auto two = std::span(ids).last(2);
      const std::string before = tokenizer->decode(two.first(1));
      const std::string both = tokenizer->decode(two);
      emit(both.starts_with(before) ? both.substr(before.size()) : tokenizer->decode(two.last(1)));
    })));
  }
  return {};
}

}  // namespace megatron::train
