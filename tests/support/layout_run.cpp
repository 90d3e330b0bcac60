#include "support/layout_run.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <mutex>
#include <thread>

#include "megatron/device/device_view.hpp"
#include "support/plugin_fixture.hpp"
#include "support/simulated_mesh.hpp"
#include "train/engine.hpp"
#include "train/layout_collector.hpp"

namespace megatron::test {
namespace {

constexpr int64_t kMicroBatch = 2;
constexpr int64_t kSeq = 8;
constexpr int64_t kVocab = 11;
constexpr double kClip = 1.0;

// Tokens, labels and mask of the global batch, by logical coordinates. The first step's batch
// differs from the second's.
int32_t token(int64_t sample, int64_t position) {
  return static_cast<int32_t>((sample * 7 + position * position * 3 + position) % kVocab);
}
float mask(int64_t sample, int64_t position) {
  return (sample + position) % 5 == 0 || sample % 7 == 3 ? 0.0F : 1.0F;
}

// One field of a micro-batch, [kMicroBatch, kSeq], all elements of four bytes.
std::vector<int32_t> make_field(std::string_view name, int64_t first_sample) {
  std::vector<int32_t> words;
  for (int64_t b = 0; b < kMicroBatch; ++b) {
    for (int64_t p = 0; p < kSeq; ++p) {
      const int64_t sample = first_sample + b;
      if (name == "tokens") words.push_back(token(sample, p));
      if (name == "labels") words.push_back(token(sample, p + 1));
      if (name == "position_ids") words.push_back(static_cast<int32_t>(p));
      if (name == "loss_mask") words.push_back(std::bit_cast<int32_t>(mask(sample, p)));
    }
  }
  return words;
}

// Plugins of a run; each rank has instances of its own.
class Rank {
 public:
  Rank(const LayoutCase& c, const TrainingShape& shape, int64_t rank, SimulatedMesh& mesh)
      : shape_(shape),
        model_plugin_(load_plugin("model", "gpt")),
        device_plugin_(load_plugin("device", "cpu")),
        optimizer_plugin_(load_plugin("optimizer", "adamw")),
        model_config_(model_plugin_, {{"num_layers", shape.layers},
                                      {"hidden_size", int64_t{8}},
                                      {"num_attention_heads", int64_t{4}},
                                      {"ffn_hidden_size", int64_t{7}},  // divides by nothing
                                      {"seq_length", kSeq},
                                      {"init_method_std", 0.3},
                                      {"hidden_dropout", shape.dropout},
                                      {"attention_dropout", shape.dropout}}),
        device_config_(device_plugin_, {{"implementation", shape.implementation}}),
        optimizer_config_(optimizer_plugin_, {}),
        collectives_(mesh.rank(rank)) {
    mgt_model_context context;
    MGT_INIT(&context);
    context.vocab_size = kVocab;
    request_.model.table = static_cast<const mgt_model*>(model_plugin_.table);
    throw_if_error(from_abi(request_.model.table->create(serial_host(), model_config_.table(),
                                                         &context, &request_.model.self)));
    request_.optimizer.table = static_cast<const mgt_optimizer*>(optimizer_plugin_.table);
    throw_if_error(from_abi(request_.optimizer.table->create(
        serial_host(), optimizer_config_.table(), &request_.optimizer.self)));
    const auto* device = static_cast<const mgt_device*>(device_plugin_.table);
    throw_if_error(from_abi(device->create(serial_host(), device_config_.table(), &device_)));
    request_.device = DeviceView(device, device_);
    request_.layout = c.layout();
    request_.rank = rank;
    request_.collectives = collectives_.get();
    request_.micro_batch_size = kMicroBatch;
    request_.micro_batches = shape.micro_batches / c.data;
    request_.seed = 77;
    const auto axis = request_.layout.axis("data");
    first_ = axis ? request_.layout.coordinates(rank)[*axis] * request_.micro_batches : 0;
    engine_ = value_or_throw(train::Engine::create(request_));
    throw_if_error(engine_->initialize_parameters());
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    engine_.reset();
    request_.model.table->destroy(request_.model.self);
    request_.optimizer.table->destroy(request_.optimizer.self);
    static_cast<const mgt_device*>(device_plugin_.table)->destroy(device_);
  }

  Trajectory run() {
    Trajectory out;
    std::vector<train::LossValue> losses;
    for (int64_t step = 1; step <= shape_.steps; ++step) {
      throw_if_error(engine_->forward_backward(feed(step), static_cast<uint64_t>(step), losses));
      out.losses.push_back(losses[0].mean());
      const double norm = value_or_throw(engine_->reduce_gradients());
      out.gradient_norms.push_back(norm);
      if (step == 1) put(engine_->gradients(), out.gradients);
      throw_if_error(engine_->update(std::min(1.0, kClip / (norm + 1e-6)), 1e-2, 0.1, step));
    }
    losses.clear();
    throw_if_error(engine_->evaluate(feed(100), losses));
    out.validation = losses[0].mean();
    return out;
  }

  // This rank's part of tensors, where it lies in the whole.
  void put(const std::vector<train::PersistentTensor>& tensors,
           std::map<std::string, std::vector<double>>& to) const {
    for (const auto& t : tensors) {
      std::vector<float> local(static_cast<size_t>(t.local.elements()));
      throw_if_error(engine_->download(t, local));
      auto& logical = to[t.name];
      logical.resize(static_cast<size_t>(t.logical.elements()));
      for (const auto& run : t.runs) {
        for (int64_t i = 0; i < run.length; ++i) {
          logical[static_cast<size_t>(run.logical_begin + i)] =
              static_cast<double>(local[static_cast<size_t>(run.local_begin + i)]);
        }
      }
    }
  }
  void put_weights(std::map<std::string, std::vector<double>>& to) const {
    std::vector<train::PersistentTensor> owned;
    for (const auto& t : engine_->parameters()) {
      if (t.owned) owned.push_back(t);
    }
    put(owned, to);
  }

 private:
  train::Engine::Feed feed(int64_t step) {
    fields_.clear();
    for (int64_t m = 0; m < request_.micro_batches; ++m) {
      const int64_t sample = ((step - 1) * shape_.micro_batches + first_ + m) * kMicroBatch;
      for (const auto& input : engine_->inputs())
        fields_[{m, input.name}] = make_field(input.name, sample);
    }
    return [this](int64_t m, std::string_view name) -> const void* {
      const auto it = fields_.find({m, std::string(name)});
      return it == fields_.end() ? nullptr : it->second.data();
    };
  }

  const TrainingShape& shape_;
  const mgt_plugin& model_plugin_;
  const mgt_plugin& device_plugin_;
  const mgt_plugin& optimizer_plugin_;
  TestConfig model_config_, device_config_, optimizer_config_;
  std::unique_ptr<runtime::Collectives> collectives_;
  void* device_ = nullptr;
  train::EngineRequest request_;
  int64_t first_ = 0;  // global micro-batch
  std::map<std::pair<int64_t, std::string>, std::vector<int32_t>> fields_;
  std::unique_ptr<train::Engine> engine_;
};

// What the plugin adds to a layout.
void apply(train::LayoutCollector& collector, const std::string& plugin_name,
           std::map<std::string, TestConfig::Value> options) {
  const mgt_plugin& plugin = load_plugin("parallel", plugin_name);
  const TestConfig config(plugin, std::move(options));
  const auto* strategy = static_cast<const mgt_parallel*>(plugin.table);
  void* self = nullptr;
  throw_if_error(from_abi(strategy->create(serial_host(), config.table(), &self)));
  const Status status = from_abi(strategy->apply(self, collector.table()));
  strategy->destroy(self);
  throw_if_error(status);
}

double norm(const std::vector<double>& x) {
  double n = 0;
  for (const double v : x) n += v * v;
  return std::sqrt(n);
}

}  // namespace

passes::Layout LayoutCase::layout() const {
  train::LayoutCollector collector;
  for (const char axis : order) {
    if (axis == 'p')
      apply(collector, "pipeline",
            {{"size", pipeline}, {"schedule", schedule}, {"virtual_stages", virtual_stages}});
    if (axis == 'd') apply(collector, "data", {{"size", data}, {"zero_stage", int64_t{zero}}});
    if (axis == 'c') apply(collector, "context", {{"size", context}, {"method", attention}});
    if (axis == 't')
      apply(collector, "tensor",
            {{"size", tensor}, {"sequence_parallel", int64_t{sequence_parallel}}});
  }
  passes::Layout layout = value_or_throw(collector.finish(ranks()));
  if (vocab_multiple > 1) layout.multiples["vocab"] = vocab_multiple;
  return layout;
}

Trajectory train(const LayoutCase& c, const TrainingShape& shape) {
  SimulatedMesh mesh(c.layout());
  Trajectory first;
  std::map<std::string, std::vector<double>> weights, gradients;
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < c.ranks(); ++r) {
    threads.emplace_back([&, r] {
      try {
        Rank rank(c, shape, r, mesh);
        const Trajectory mine = rank.run();
        const std::lock_guard lock(mutex);
        rank.put_weights(weights);
        for (const auto& [name, part] : mine.gradients) {
          auto& whole = gradients[name];
          whole.resize(part.size());
          // Where a rank has nothing it left zeros; ranks that hold the same have the same.
          for (size_t i = 0; i < part.size(); ++i) whole[i] = part[i] != 0 ? part[i] : whole[i];
        }
        if (r == 0) first = mine;
        if (first.losses.empty()) first = mine;
        EXPECT_EQ(mine.losses, first.losses) << "rank " << r;
        EXPECT_EQ(mine.gradient_norms, first.gradient_norms) << "rank " << r;
        EXPECT_EQ(mine.validation, first.validation) << "rank " << r;
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        mesh.abort();
      }
    });
  }
  for (auto& t : threads) t.join();
  if (error) std::rethrow_exception(error);
  first.weights = std::move(weights);
  first.gradients = std::move(gradients);
  return first;
}

double largest_difference(const std::map<std::string, std::vector<double>>& many,
                          const std::map<std::string, std::vector<double>>& one) {
  double worst = 0;
  EXPECT_EQ(many.size(), one.size());
  for (const auto& [name, tensor] : one) {
    if (name.ends_with("attention.key.bias")) continue;
    const auto it = many.find(name);
    if (it == many.end()) {
      ADD_FAILURE() << name;
      continue;
    }
    std::vector<double> difference = tensor;
    for (size_t i = 0; i < tensor.size(); ++i) difference[i] -= it->second[i];
    worst = std::max(worst, norm(difference) / norm(tensor));
  }
  return worst;
}

}  // namespace megatron::test
