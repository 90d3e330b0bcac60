// One training step of GPT-2 124M (or another size) on the CPU device: tokens/s, the fraction of
// the machine's own GEMM rate, time by op, peak memory.
//   bench_step [--batch 4] [--seq 64] [--steps 3] [--layers 12] [--hidden 768] [--heads 12]
//   [--vocab 50257] [--json]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "megatron/device/device_view.hpp"
#include "train/experiment.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a program of its own
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// GF/s of the device's largest product of the step, y[m, n] = x[m, k]·w[n, k]ᵀ: what this machine's
// GEMM gives now.
double gemm_rate(const DeviceView& device, int64_t m, int64_t n, int64_t k) {
  KernelDesc desc;
  desc.op = "linear";
  desc.attrs = {{"contract", int64_t{1}}};
  desc.inputs = {TensorDesc(DType::f32, std::vector<int64_t>{m, k}),
                 TensorDesc(DType::f32, std::vector<int64_t>{n, k})};
  desc.outputs = {TensorDesc(DType::f32, std::vector<int64_t>{m, n})};
  const auto kernel = value_or_throw(device.prepare(desc));
  const auto bytes = static_cast<uint64_t>((m * k + n * k + m * n) * 4);
  const uint64_t workspace = (bytes + 4095) / 4096 * 4096;
  auto* memory = static_cast<char*>(
      value_or_throw(device.allocate(workspace + kernel.workspace_bytes() + 4096)));
  std::memset(memory, 0, bytes);
  void* inputs[] = {memory, memory + m * k * 4};
  void* outputs[] = {memory + (m * k + n * k) * 4};
  std::vector<double> rates;
  for (int i = 0; i < 12; ++i) {
    const auto start = Clock::now();
    throw_if_error(kernel.launch(inputs, outputs, {}, memory + workspace));
    rates.push_back(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) /
                    seconds_since(start) / 1e9);
  }
  device.free(memory);
  return median(rates);
}

// Options that set a size of gpt2.toml.
const std::map<std::string, std::string> kSizes = {{"seq", "seq_length"},
                                                   {"layers", "num_layers"},
                                                   {"hidden", "hidden_size"},
                                                   {"heads", "num_attention_heads"},
                                                   {"vocab", "vocab_size"}};

struct Options {
  int64_t batch = 4, steps = 3;
  bool json = false;
  std::vector<std::string> sizes;  // KEY=VALUE for the manifest
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i] + (std::strncmp(argv[i], "--", 2) == 0 ? 2 : 0);
    const auto size = kSizes.find(name);
    if (name == "json") {
      o.json = true;
    } else if (i + 1 < argc && size != kSizes.end()) {
      o.sizes.push_back(text("model.", size->second, "=", argv[++i]));
    } else if (i + 1 < argc && (name == "batch" || name == "steps")) {
      (name == "batch" ? o.batch : o.steps) = std::max(1ll, std::atoll(argv[++i]));
    } else {
      fmt::print(stderr, "unknown option, or one without its value: {}\n", argv[i]);
      std::exit(2);
    }
  }
  return o;
}

int run(const Options& o) {
  auto& services = *new train::PoolServices;
  throw_if_error(services.start(0));
  plugin::Registry registry(
      value_or_throw(plugin::make_search_path({}, {}, plugin::system_search_environment())),
      services);
  auto experiment =
      value_or_throw(train::Experiment::load(MEGATRON_BENCH_MANIFEST, o.sizes, registry));
  const auto size = [&](std::string_view key) {
    return experiment->config().section("model").get<int64_t>(key);
  };
  const int64_t seq = size("seq_length"), hidden = size("hidden_size");
  const auto vocab = static_cast<uint32_t>(size("vocab_size"));
  train::EngineRequest request;
  request.model = value_or_throw(experiment->model());
  request.device = value_or_throw(experiment->device());
  request.optimizer = value_or_throw(experiment->optimizer());
  request.layout = experiment->single_layout();
  request.micro_batch_size = o.batch;
  request.evaluate = false;
  auto engine = value_or_throw(train::Engine::create(request));
  throw_if_error(engine->initialize_parameters());

  const int64_t tokens = o.batch * seq;
  std::mt19937 rng(1);
  std::vector<int32_t> ids, labels, positions;
  for (int64_t i = 0; i < tokens; ++i) {
    ids.push_back(static_cast<int32_t>(rng() % vocab));
    labels.push_back(static_cast<int32_t>(rng() % vocab));
    positions.push_back(static_cast<int32_t>(i % seq));
  }
  const std::vector<float> mask(static_cast<size_t>(tokens), 1.0F);
  const auto feed = [&](int64_t, std::string_view name) -> const void* {
    if (name == "tokens") return ids.data();
    if (name == "labels") return labels.data();
    if (name == "position_ids") return positions.data();
    return mask.data();
  };
  const auto step = [&](int64_t n) {
    std::vector<train::LossValue> losses;
    throw_if_error(engine->forward_backward(feed, static_cast<uint64_t>(n), losses));
    const double norm = value_or_throw(engine->reduce_gradients());
    throw_if_error(engine->update(std::min(1.0, 1.0 / (norm + 1e-6)), 1e-4, 0.01, n));
    return losses[0].mean();
  };
  step(1);  // touches every page once
  for (const auto& work : engine->step_work()) work.executable->enable_profile();
  std::vector<double> times, rates;
  double loss = 0;
  for (int64_t i = 0; i < o.steps; ++i) {
    rates.push_back(gemm_rate(request.device, std::min<int64_t>(tokens, 1024), 4 * hidden, hidden));
    const auto start = Clock::now();
    loss = step(i + 2);
    times.push_back(seconds_since(start));
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  const double seconds = median(times);
  const double rate = median(rates);
  const double gflops = engine->programs().train_flops / seconds / 1e9;
  if (o.json) {
    fmt::print(
        "{{\"tokens_per_second\": {:.1f}, \"step_seconds\": {:.3f}, \"gflops\": {:.1f}, "
        "\"gemm_gflops\": {:.1f}, \"peak_rss_gb\": {:.2f}}}\n",
        static_cast<double>(tokens) / seconds, seconds, gflops, rate,
        static_cast<double>(usage.ru_maxrss) / 1e6);
    return 0;
  }
  fmt::print("{}; {} parameters, batch {}, {} tokens; loss {:.4f}\n",
             value_or_throw(request.device.description()), engine->programs().parameter_count,
             o.batch, seq, loss);
  fmt::print("step {:.3f} s (median of {}; {:.3f} to {:.3f}), {:.1f} tokens/s\n", seconds,
             times.size(), *std::min_element(times.begin(), times.end()),
             *std::max_element(times.begin(), times.end()), static_cast<double>(tokens) / seconds);
  fmt::print(
      "{:.1f} GF/s of the step's own FLOPs = {:.2f} of the machine's GEMM rate in the same minutes "
      "({:.1f} GF/s)\n",
      gflops, gflops / rate, rate);
  fmt::print("memory: {:.2f} GB planned, {:.2f} GB peak of the process\n\n",
             static_cast<double>(engine->memory().total()) / 1e9,
             static_cast<double>(usage.ru_maxrss) / 1e6);
  fmt::print("{:<30} {:<12} {:>6} {:>9} {:>6} {:>8}\n", "op", "kernel", "calls", "s/step", "%",
             "GF/s");
  const auto steps = static_cast<double>(o.steps);
  double total = 0;
  for (const auto& work : engine->step_work()) {
    for (const auto& row : work.executable->profile()) {
      total += row.seconds / steps;
      fmt::print("{:<30} {:<12} {:>6} {:>9.4f} {:>6.1f} {:>8.1f}\n", row.op, row.implementation,
                 row.calls / o.steps, row.seconds / steps, 100 * row.seconds / steps / seconds,
                 row.flops / row.seconds / 1e9);
    }
  }
  fmt::print("{:<30} {:<12} {:>6} {:>9.4f}\n", "gradient norm and the rest", "", "",
             seconds - total);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const StatusError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
