// Against Hugging Face transformers and PyTorch: loss, gradients per logical tensor (query, key and
// value apart), clipping and AdamW steps of a GPT-2 with random weights and an odd vocabulary.
// README.md says what the files hold.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "checkpoint/safetensors.hpp"
#include "support/plugin_fixture.hpp"
#include "train/engine.hpp"

namespace megatron {
namespace {

using checkpoint::SafetensorsReader;

constexpr double kLr = 1e-3;
constexpr double kWeightDecay = 0.1;
constexpr double kClip = 1.0;

SafetensorsReader open(const std::string& file) {
  return value_or_throw(
      SafetensorsReader::open(text(MEGATRON_SOURCE_DIR, "/tests/parity/data/", file)));
}

template <class T>
std::vector<T> read(const SafetensorsReader& file, const std::string& name) {
  const auto it = file.tensors().find(name);
  MGT_CHECK(it != file.tensors().end(), name);
  std::vector<T> out(it->second.bytes() / sizeof(T));
  throw_if_error(file.read(name, std::as_writable_bytes(std::span(out))));
  return out;
}

struct Size {
  int64_t layers, hidden, heads, positions, vocab, batch;
};

// An engine with the reference's initial weights.
class Gpt2 {
 public:
  Gpt2(const Size& size, const std::string& initial, int64_t vocab_multiple,
       const std::string& implementation, int64_t micro_batches = 1)
      : size_(size),
        model_plugin_(test::load_plugin("model", "gpt")),
        device_plugin_(test::load_plugin("device", "cpu")),
        optimizer_plugin_(test::load_plugin("optimizer", "adamw")),
        model_config_(model_plugin_, {{"num_layers", size.layers},
                                      {"hidden_size", size.hidden},
                                      {"num_attention_heads", size.heads},
                                      {"seq_length", size.positions},
                                      {"vocab_size", size.vocab},
                                      {"hidden_dropout", 0.0},
                                      {"attention_dropout", 0.0}}),
        device_config_(device_plugin_, {{"implementation", implementation}}),
        optimizer_config_(optimizer_plugin_, {}) {
    train::EngineRequest& request = request_;
    mgt_model_context context;
    MGT_INIT(&context);
    request.model.table = static_cast<const mgt_model*>(model_plugin_.table);
    throw_if_error(from_abi(request.model.table->create(test::serial_host(), model_config_.table(),
                                                        &context, &request.model.self)));
    request.optimizer.table = static_cast<const mgt_optimizer*>(optimizer_plugin_.table);
    throw_if_error(from_abi(request.optimizer.table->create(
        test::serial_host(), optimizer_config_.table(), &request.optimizer.self)));
    const auto* device = static_cast<const mgt_device*>(device_plugin_.table);
    throw_if_error(from_abi(device->create(test::serial_host(), device_config_.table(), &device_)));
    request.device = DeviceView(device, device_);
    request.layout.axes = {{"data", 1}};
    request.layout.multiples["vocab"] = vocab_multiple;
    request.micro_batch_size = size.batch;
    request.micro_batches = micro_batches;
    engine_ = value_or_throw(train::Engine::create(request));
    throw_if_error(engine_->initialize_parameters());
    const auto weights = open(initial);
    EXPECT_EQ(weights.tensors().size(), engine_->parameters().size());
    for (const auto& t : engine_->parameters()) {
      const auto logical = read<float>(weights, t.name);
      std::vector<float> local(static_cast<size_t>(t.local.elements()), 0.0F);
      for (const auto& run : t.runs) {
        std::copy_n(logical.begin() + run.logical_begin, run.length,
                    local.begin() + run.local_begin);
      }
      throw_if_error(engine_->upload(t, local));
    }
  }

  Gpt2(const Gpt2&) = delete;
  Gpt2& operator=(const Gpt2&) = delete;
  ~Gpt2() {
    engine_.reset();
    request_.model.table->destroy(request_.model.self);
    request_.optimizer.table->destroy(request_.optimizer.self);
    static_cast<const mgt_device*>(device_plugin_.table)->destroy(device_);
  }

  // Forward and backward of the step's micro-batches, which lie one behind the other; returns the
  // mean loss.
  double step(const int32_t* tokens, const int32_t* labels, const float* mask) {
    std::vector<int32_t> positions;
    const int64_t elements = size_.batch * size_.positions;
    for (int64_t i = 0; i < elements; ++i)
      positions.push_back(static_cast<int32_t>(i % size_.positions));
    std::vector<train::LossValue> losses;
    const auto feed = [&](int64_t m, std::string_view name) -> const void* {
      if (name == "tokens") return tokens + m * elements;
      if (name == "labels") return labels + m * elements;
      if (name == "loss_mask") return mask + m * elements;
      return positions.data();
    };
    throw_if_error(engine_->forward_backward(feed, 1, losses));
    return losses[0].mean();
  }

  double gradient_norm() { return value_or_throw(engine_->reduce_gradients()); }
  void update(double norm, int64_t step) {
    throw_if_error(engine_->update(std::min(1.0, kClip / (norm + 1e-6)), kLr, kWeightDecay, step));
  }

  std::vector<float> parameter(const std::string& name) {
    return logical(find(engine_->parameters(), name));
  }
  // After gradient_norm(): of all uses together.
  std::vector<float> gradient(const std::string& name) {
    return logical(find(engine_->gradients(), "reduced." + name));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& t : engine_->parameters()) out.push_back(t.name);
    return out;
  }

 private:
  static const train::PersistentTensor& find(const std::vector<train::PersistentTensor>& tensors,
                                             const std::string& name) {
    const auto t = std::find_if(tensors.begin(), tensors.end(),
                                [&](const auto& candidate) { return candidate.name == name; });
    MGT_CHECK(t != tensors.end(), name);
    return *t;
  }
  std::vector<float> logical(const train::PersistentTensor& t) {
    std::vector<float> local(static_cast<size_t>(t.local.elements()));
    throw_if_error(engine_->download(t, local));
    std::vector<float> out(static_cast<size_t>(t.logical.elements()));
    for (const auto& run : t.runs) {
      std::copy_n(local.begin() + run.local_begin, run.length, out.begin() + run.logical_begin);
    }
    return out;
  }

  const Size size_;
  const mgt_plugin& model_plugin_;
  const mgt_plugin& device_plugin_;
  const mgt_plugin& optimizer_plugin_;
  test::TestConfig model_config_;
  test::TestConfig device_config_;
  test::TestConfig optimizer_config_;
  void* device_ = nullptr;
  train::EngineRequest request_;
  std::unique_ptr<train::Engine> engine_;
};

// ‖a − b‖ / max(‖b‖, floor)
double distance(const std::vector<float>& a, const std::vector<float>& b, double floor) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), floor);
}

bool is_key_bias(const std::string& name) { return name.ends_with("attention.key.bias"); }

// Compares every gradient; the key bias has none in exact arithmetic and is held against the global
// norm.
double worst_gradient(Gpt2& model, const SafetensorsReader& reference, const std::string& prefix,
                      double global_norm) {
  double worst = 0;
  for (const auto& name : model.names()) {
    const auto expected = read<float>(reference, prefix + name);
    const double d = distance(model.gradient(name), expected,
                              is_key_bias(name) ? global_norm : 1e-6 * global_norm);
    EXPECT_LE(d, 1e-4) << name;
    worst = std::max(worst, d);
  }
  return worst;
}

struct Variant {
  std::string implementation;
  int64_t vocab_multiple;
};
std::string variant_name(const testing::TestParamInfo<Variant>& info) {
  return info.param.implementation + "_vocab" + std::to_string(info.param.vocab_multiple);
}

class Gpt2Parity : public testing::TestWithParam<Variant> {};

TEST_P(Gpt2Parity, LossGradientsAndTwentySteps) {
  const Size size{3, 48, 4, 24, 211, 3};
  Gpt2 model(size, "gpt2_tiny/initial.safetensors", GetParam().vocab_multiple,
             GetParam().implementation);
  const auto run = open("gpt2_tiny/run.safetensors");
  const auto tokens = read<int32_t>(run, "tokens");
  const auto labels = read<int32_t>(run, "labels");
  const auto mask = read<float>(run, "loss_mask");
  const auto losses = read<double>(run, "loss.float64");
  const auto norms = read<double>(run, "grad_norm.float64");
  double worst_loss = 0;
  for (size_t step = 0; step < losses.size(); ++step) {
    const double loss = model.step(tokens.data(), labels.data(), mask.data());
    const double norm = model.gradient_norm();
    const double error = std::abs(loss - losses[step]) / losses[step];
    EXPECT_LE(error, step == 0 ? 1e-6 : 1e-5) << "step " << step;
    worst_loss = std::max(worst_loss, error);
    EXPECT_NEAR(norm / norms[step], 1.0, 1e-5) << "step " << step;
    if (step == 0) {
      const double worst =
          worst_gradient(model, open("gpt2_tiny/gradient.safetensors"), "", norms[0]);
      std::printf("loss %.2e, worst gradient %.2e", error, worst);
    }
    model.update(norm, static_cast<int64_t>(step) + 1);
  }
  std::printf(", worst loss of 20 steps %.2e\n", worst_loss);
  const auto final_weights = open("gpt2_tiny/final.safetensors");
  for (const auto& name : model.names()) {
    if (is_key_bias(name)) continue;
    EXPECT_LE(distance(model.parameter(name), read<float>(final_weights, name), 1e-3), 1e-4)
        << name;
  }
}

TEST_P(Gpt2Parity, AccumulatedMicroBatchesAreTheTokenMean) {
  constexpr size_t kMicroBatches = 4;
  const Size size{2, 16, 2, 12, 53, 2};
  Gpt2 model(size, "gpt2_accumulate/initial.safetensors", GetParam().vocab_multiple,
             GetParam().implementation, kMicroBatches);
  const auto run = open("gpt2_accumulate/run.safetensors");
  const auto gradients = open("gpt2_accumulate/gradient.safetensors");
  const auto tokens = read<int32_t>(run, "tokens");
  const auto labels = read<int32_t>(run, "labels");
  const auto mask = read<float>(run, "loss_mask");
  const auto losses = read<double>(run, "loss.float64");
  const auto norms = read<double>(run, "grad_norm.float64");
  const auto elements = static_cast<size_t>(size.batch * size.positions);
  for (size_t step = 0; step < losses.size(); ++step) {
    const size_t at = step * kMicroBatches * elements;
    const double loss = model.step(&tokens[at], &labels[at], &mask[at]);
    EXPECT_NEAR(loss / losses[step], 1.0, 1e-5) << "step " << step;
    const double norm = model.gradient_norm();
    EXPECT_NEAR(norm / norms[step], 1.0, 1e-5) << "step " << step;
    worst_gradient(model, gradients, text("step", step, "/"), norms[step]);
    model.update(norm, static_cast<int64_t>(step) + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Gpt2Parity,
                         testing::Values(Variant{"auto", 1}, Variant{"auto", 128},
                                         Variant{"reference", 1}),
                         variant_name);

}  // namespace
}  // namespace megatron
