// The AdamW plugin's rule, compiled as a run compiles it, against torch.optim.AdamW in float64
// (tests/parity/data/adamw.safetensors): 20 steps of a matrix that decays and a vector that does
// not.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors.hpp"
#include "graph/text.hpp"
#include "passes/pipeline.hpp"
#include "runtime/executable.hpp"
#include "tiny_gpt.hpp"

namespace megatron::train {
namespace {

constexpr size_t kSteps = 20;

class Reference {
 public:
  Reference()
      : file_(value_or_throw(checkpoint::SafetensorsReader::open(
            MEGATRON_SOURCE_DIR "/tests/parity/data/adamw.safetensors"))) {}
  std::vector<double> operator()(const std::string& name) const {
    std::vector<double> out(file_.tensors().at(name).bytes() / sizeof(double));
    throw_if_error(file_.read(name, std::as_writable_bytes(std::span(out))));
    return out;
  }

 private:
  checkpoint::SafetensorsReader file_;
};

std::vector<float> to_float(std::span<const double> values) {
  return {values.begin(), values.end()};
}

// ‖a − b‖ / ‖b‖
double relative(std::span<const float> a, std::span<const double> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(AdamW, EqualsPyTorch) {
  const Reference reference;
  const auto train = graph::parse(
      "program train\n"
      "  parameter %matrix : f32[n=7, k=5] = zeros\n"
      "  parameter %vector : f32[n=6] = zeros\n"
      "  state %grad.matrix : f32[n=7, k=5]\n"
      "  state %grad.vector : f32[n=6]\n"
      "end\n");
  ASSERT_TRUE(train.ok()) << train.status().message();

  const test::TinyGpt plugins;  // for its optimizer and its device
  auto update = build_update(*train, plugins.request().optimizer, {"matrix", "vector"});
  ASSERT_TRUE(update.ok()) << update.status().message();
  throw_if_error(passes::run_passes(update->program, passes::optimisation_passes()));
  const auto executable = value_or_throw(
      runtime::Executable::compile(std::move(update->program), plugins.request().device));
  std::map<std::string, std::vector<float>> memory;
  runtime::Homes homes;
  for (const std::string name : {"matrix", "vector"}) {
    const auto initial = to_float(reference(name + ".initial"));
    memory[name] = initial;
    for (const char* state : {"reduced.", "exp_avg.", "exp_avg_sq."})
      memory[state + name].assign(initial.size(), 0.0F);
  }
  for (auto& [name, values] : memory) homes[name] = values.data();
  std::vector<char> scratch(
      static_cast<size_t>(executable->plan().scratch_bytes + 2 * runtime::kAlignment));
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(runtime::kAlignment, 1, aligned, space);
  throw_if_error(executable->bind(aligned, homes).status());

  const auto rates = reference("learning_rate");
  executable->set_scalar("clip_coefficient", 1.0);
  executable->set_scalar("weight_decay", 0.1);
  for (size_t step = 0; step < kSteps; ++step) {
    for (const std::string name : {"matrix", "vector"}) {
      const auto gradients = reference(name + ".gradient");
      auto& home = memory["reduced." + name];
      for (size_t i = 0; i < home.size(); ++i)
        home[i] = static_cast<float>(gradients[step * home.size() + i]);
    }
    executable->set_scalar("lr", rates[step]);
    executable->set_scalar("step", static_cast<double>(step + 1));
    throw_if_error(executable->run({}));
    for (const std::string name : {"matrix", "vector"}) {
      const auto values = reference(name + ".value");
      const auto& value = memory[name];
      // A few roundings a step.
      EXPECT_LE(relative(value, std::span(values).subspan(step * value.size(), value.size())),
                2e-7 * std::sqrt(static_cast<double>(step + 1)))
          << name << ", step " << step;
    }
  }
  for (const std::string name : {"matrix", "vector"}) {
    EXPECT_LE(relative(memory["exp_avg." + name], reference(name + ".first_moment")), 1e-6) << name;
    EXPECT_LE(relative(memory["exp_avg_sq." + name], reference(name + ".second_moment")), 1e-6)
        << name;
  }
}

}  // namespace
}  // namespace megatron::train
