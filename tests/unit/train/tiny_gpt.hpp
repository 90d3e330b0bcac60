// The smallest GPT that has everything, on the CPU device: model, optimizer and device plugins from
// the build tree, and batches by formula.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "megatron/device/device_view.hpp"
#include "support/plugin_fixture.hpp"
#include "train/engine.hpp"

namespace megatron::test {

class TinyGpt {
 public:
  static constexpr int64_t kSeq = 8;
  static constexpr int64_t kVocab = 11;
  static constexpr int64_t kBatch = 2;

  explicit TinyGpt(const std::string& implementation = "auto", double dropout = 0.1,
                   double init_std = 0.02)
      : model_plugin_(load_plugin("model", "gpt")),
        device_plugin_(load_plugin("device", "cpu")),
        optimizer_plugin_(load_plugin("optimizer", "adamw")),
        model_config_(model_plugin_, {{"num_layers", int64_t{2}},
                                      {"hidden_size", int64_t{8}},
                                      {"num_attention_heads", int64_t{2}},
                                      {"seq_length", kSeq},
                                      {"vocab_size", kVocab},
                                      {"init_method_std", init_std},
                                      {"hidden_dropout", dropout},
                                      {"attention_dropout", dropout}}),
        device_config_(device_plugin_, {{"implementation", implementation}}),
        optimizer_config_(optimizer_plugin_, {}) {
    mgt_model_context context;
    MGT_INIT(&context);
    request_.model.table = static_cast<const mgt_model*>(model_plugin_.table);
    throw_if_error(from_abi(request_.model.table->create(serial_host(), model_config_.table(),
                                                         &context, &request_.model.self)));
    request_.optimizer.table = static_cast<const mgt_optimizer*>(optimizer_plugin_.table);
    throw_if_error(from_abi(request_.optimizer.table->create(
        serial_host(), optimizer_config_.table(), &request_.optimizer.self)));
    const auto* device = static_cast<const mgt_device*>(device_plugin_.table);
    throw_if_error(from_abi(device->create(serial_host(), device_config_.table(), &device_)));
    request_.device = DeviceView(device, device_);
    request_.layout.axes = {{"data", 1}};
    request_.micro_batch_size = kBatch;
    request_.micro_batches = 2;
  }
  TinyGpt(const TinyGpt&) = delete;
  TinyGpt& operator=(const TinyGpt&) = delete;
  ~TinyGpt() {
    request_.model.table->destroy(request_.model.self);
    request_.optimizer.table->destroy(request_.optimizer.self);
    static_cast<const mgt_device*>(device_plugin_.table)->destroy(device_);
  }

  const mgt_device& device_table() const {
    return *static_cast<const mgt_device*>(device_plugin_.table);
  }
  // For an engine to be made: the same device through another table, which must outlive it.
  void use_device_table(const mgt_device& table) { request_.device = DeviceView(&table, device_); }
  const train::EngineRequest& request() const { return request_; }
  train::EngineRequest& request() { return request_; }
  // Must not outlive this object.
  std::unique_ptr<train::Engine> engine() const {
    auto engine = value_or_throw(train::Engine::create(request_));
    throw_if_error(engine->initialize_parameters());
    return engine;
  }

 private:
  const mgt_plugin& model_plugin_;
  const mgt_plugin& device_plugin_;
  const mgt_plugin& optimizer_plugin_;
  TestConfig model_config_;
  TestConfig device_config_;
  TestConfig optimizer_config_;
  void* device_ = nullptr;
  train::EngineRequest request_;
};

// One micro-batch of TinyGpt by field name.
class TinyBatch {
 public:
  explicit TinyBatch(int32_t offset = 0) {
    for (int64_t i = 0; i < TinyGpt::kBatch * TinyGpt::kSeq; ++i) {
      const auto n = static_cast<int32_t>(i) + offset;
      tokens_.push_back((n * 7 + n * n) % static_cast<int32_t>(TinyGpt::kVocab));
      labels_.push_back((n * 3 + 1) % static_cast<int32_t>(TinyGpt::kVocab));
      positions_.push_back(static_cast<int32_t>(i % TinyGpt::kSeq));
      mask_.push_back(i % 5 == 0 ? 0.0F : 1.0F);
    }
  }
  const void* field(std::string_view name) const {
    if (name == "tokens") return tokens_.data();
    if (name == "labels") return labels_.data();
    if (name == "position_ids") return positions_.data();
    return name == "loss_mask" ? static_cast<const void*>(mask_.data()) : nullptr;
  }
  train::Engine::Feed feed() const {
    return [this](int64_t, std::string_view name) { return field(name); };
  }
  double count() const {
    double n = 0;
    for (const float m : mask_) n += static_cast<double>(m);
    return n;
  }

 private:
  std::vector<int32_t> tokens_, labels_, positions_;
  std::vector<float> mask_;
};

inline std::vector<float> download(const train::Engine& engine, const train::PersistentTensor& t) {
  std::vector<float> out(static_cast<size_t>(t.local.elements()));
  throw_if_error(engine.download(t, out));
  return out;
}

}  // namespace megatron::test
