// Time of every kind of op at the shapes of GPT-2 124M, on any device plugin: GF/s where work is
// arithmetic, GB/s (each operand once) where it is memory.
//   device_ops [--device cpu] [--batch 4] [--seq 1024] [--rounds 5] [--filter TEXT]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>

#include "megatron/device/device_view.hpp"
#include "train/experiment.hpp"

namespace {

using namespace megatron;  // NOLINT(google-build-using-namespace): a program of its own

constexpr int64_t kHidden = 768, kHeads = 12, kVocab = 50257;

struct Row {
  std::string variant;
  KernelDesc desc;
  double flops = 0;  // 0: bound by memory
  std::vector<double> scalars = {};
  int64_t bytes = 0;  // that are read and written; 0: every operand once
};

TensorDesc f32(std::vector<int64_t> dims) { return {DType::f32, std::move(dims)}; }
TensorDesc i32(std::vector<int64_t> dims) { return {DType::i32, std::move(dims)}; }

KernelDesc desc(std::string op, KernelAttrs attrs, std::vector<TensorDesc> inputs,
                std::vector<TensorDesc> outputs) {
  KernelDesc out;
  out.op = std::move(op);
  out.attrs = std::move(attrs);
  out.inputs = std::move(inputs);
  out.outputs = std::move(outputs);
  return out;
}

void add_products(std::vector<Row>& rows, int64_t tokens) {
  const struct {
    std::string_view name;
    int64_t n, k;
  } layers[] = {{"qkv", 3 * kHidden, kHidden},
                {"projection", kHidden, kHidden},
                {"mlp up", 4 * kHidden, kHidden},
                {"mlp down", kHidden, 4 * kHidden}};
  for (const auto& [name, n, k] : layers) {
    const KernelAttrs one = {{"contract", int64_t{1}}};
    const auto x = f32({tokens, k}), w = f32({n, k}), y = f32({tokens, n});
    const double flops =
        2 * static_cast<double>(tokens) * static_cast<double>(n) * static_cast<double>(k);
    rows.push_back({std::string(name), desc("linear", one, {x, w}, {y}), flops});
    rows.push_back({std::string(name), desc("linear_dgrad", one, {y, w}, {x}), flops});
    rows.push_back({std::string(name), desc("linear_wgrad", one, {y, x}, {w}), flops});
  }
}

// Four flops a pair of elements of q and k forward (q·k and p·v), ten backward, over the pairs that
// the causal mask lets through.
void add_attention(std::vector<Row>& rows, int64_t b, int64_t s) {
  const auto q = f32({b, s, kHeads, kHidden / kHeads}), lse = f32({b, kHeads, s});
  const double pairs = static_cast<double>(b * kHidden) * static_cast<double>(s * (s + 1)) / 2;
  for (const double dropout : {0.0, 0.1}) {
    const KernelAttrs attrs = {{"causal", int64_t{1}},
                               {"scale", 0.125},
                               {"dropout", dropout},
                               {"site", std::string("h.0.attn")}};
    const std::string variant = dropout == 0 ? "causal" : "causal, dropout";
    rows.push_back({variant, desc("attention", attrs, {q, q, q}, {q, lse}), 4 * pairs});
    rows.push_back(
        {variant, desc("attention_grad", attrs, {q, q, q, q, q, lse}, {q, q, q}), 10 * pairs});
  }
}

void add_loss(std::vector<Row>& rows, int64_t tokens) {
  const auto x = f32({tokens, kHidden}), w = f32({kVocab, kHidden}), row = f32({tokens});
  const auto labels = i32({tokens});
  const double product = 2 * static_cast<double>(tokens) * static_cast<double>(kVocab * kHidden);
  rows.push_back({"", desc("linear_cross_entropy", {}, {x, w, labels}, {row, row}), product});
  rows.push_back({"", desc("linear_cross_entropy_grad", {}, {x, w, labels, row, row, row}, {x, w}),
                  3 * product});
  rows.push_back(
      {"", desc("linear_cross_entropy_train", {}, {x, w, labels, row, row}, {row, row, x, w}),
       3 * product});
}

void add_rows(std::vector<Row>& rows, int64_t b, int64_t s) {
  const auto x = f32({b, s, kHidden}), k = f32({kHidden}), row = f32({b, s}),
             up = f32({4 * kHidden});
  const auto wide = f32({b, s, 4 * kHidden}), table = f32({kVocab, kHidden});
  const auto ids = i32({b, s});
  rows.push_back({"", desc("layer_norm", {{"epsilon", 1e-5}}, {x, k, k}, {x, row, row})});
  rows.push_back({"", desc("layer_norm_grad", {}, {x, x, row, row, k}, {x})});
  rows.push_back({"", desc("layer_norm_param_grad", {}, {x, x, row, row}, {k, k})});
  rows.push_back({"", desc("embedding", {}, {ids, table}, {x}), 0, {}, 2 * x.bytes()});
  rows.push_back({"", desc("embedding_grad", {{"vocab", kVocab}}, {ids, x}, {table})});
  rows.push_back({"bias", desc("sum", {{"keep", int64_t{1}}}, {wide}, {up})});
  rows.push_back({"all", desc("sum_squares", {}, {table}, {f32({})})});
  rows.push_back({"", desc("copy", {}, {table}, {table})});
  const auto fused = [&](std::string_view variant, std::string_view expr,
                         std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs,
                         std::vector<double> scalars = {}) {
    auto d = desc("fused", {{"expr", std::string(expr)}}, std::move(inputs), std::move(outputs));
    d.scalar_count = scalars.size();
    rows.push_back({std::string(variant), std::move(d), 0, std::move(scalars), 0});
  };
  fused("bias, gelu", "t0 = add(i0, i1); t1 = gelu(t0); out t0 t1", {wide, up}, {wide, wide});
  fused("gelu gradient", "t0 = gelu_grad(i0, i1); out t0", {wide, wide}, {wide});
  fused(
      "bias, dropout, residual",
      "t0 = add(i0, i1); t1 = dropout(t0) {p = 0.1, site = \"h.0.mlp\"}; t2 = add(t1, i2); out t2",
      {x, k, x}, {x});
  fused("adamw",
        "t0 = mul(i2, 0.9); t1 = mul(i1, 0.1); t2 = add(t0, t1); t3 = square(i1); "
        "t4 = mul(t3, 0.001); t5 = mul(i3, 0.999); t6 = add(t5, t4); t7 = div(t2, s1); "
        "t8 = div(t6, s2); t9 = sqrt(t8); t10 = add(t9, 1e-8); t11 = div(t7, t10); "
        "t12 = mul(i0, 0.1); t13 = add(t11, t12); t14 = mul(t13, s0); t15 = sub(i0, t14); "
        "out t15 t2 t6",
        {table, table, table, table}, {table, table, table}, {1e-4, 0.1, 0.001});
}

// Operands of one kernel on the device.
class Operands {
 public:
  Operands(const DeviceView& device, const KernelDesc& d, uint64_t workspace) : device_(device) {
    uint64_t bytes = 0;
    const auto place = [&](const TensorDesc& t) {
      const uint64_t at = bytes;
      bytes += (static_cast<uint64_t>(t.bytes()) + 4095) / 4096 * 4096;
      return at;
    };
    std::vector<uint64_t> in, out;
    for (const auto& t : d.inputs) in.push_back(place(t));
    for (const auto& t : d.outputs) out.push_back(place(t));
    memory_ = static_cast<char*>(value_or_throw(device.allocate(bytes + workspace + 4096)));
    for (size_t i = 0; i < in.size(); ++i) {
      inputs.push_back(memory_ + in[i]);
      fill(d.inputs[i], inputs.back());
    }
    for (const uint64_t at : out) outputs.push_back(memory_ + at);
    scratch = memory_ + bytes;
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands() { device_.free(memory_); }

  std::vector<void*> inputs, outputs;
  void* scratch;

 private:
  void fill(const TensorDesc& t, void* to) {
    const auto n = static_cast<size_t>(t.elements());
    if (t.dtype == DType::i32) {
      std::vector<int32_t> ids(n);
      for (auto& id : ids) id = static_cast<int32_t>(random_() % static_cast<uint32_t>(kVocab));
      return throw_if_error(device_.upload(to, ids.data(), n * sizeof(int32_t)));
    }
    std::vector<float> values(n);
    for (auto& v : values) v = static_cast<float>(random_() >> 8) * 0x1p-24f;
    throw_if_error(device_.upload(to, values.data(), n * sizeof(float)));
  }

  const DeviceView& device_;
  char* memory_ = nullptr;
  std::mt19937 random_{1};
};

// Median of the seconds of one launch.
double seconds(const DeviceView& device, const KernelHandle& kernel, const Row& row,
               Operands& operands, int64_t rounds) {
  using Clock = std::chrono::steady_clock;
  const mgt_rng_key rng{1, 2, 0};
  std::vector<double> times;
  for (int64_t i = -1; i < rounds; ++i) {  // the first one touches the results' pages
    const auto start = Clock::now();
    throw_if_error(
        kernel.launch(operands.inputs, operands.outputs, row.scalars, operands.scratch, &rng));
    throw_if_error(device.synchronize());
    if (i >= 0) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

using Options = std::map<std::string, std::string>;

void run(const Options& o) {
  auto& services = *new train::PoolServices;  // outlives what plugins hold
  throw_if_error(services.start(0));
  plugin::Registry registry(
      value_or_throw(plugin::make_search_path({}, {}, plugin::system_search_environment())),
      services);
  const std::vector<std::string> values = {fmt::format("device.plugin={}", o.at("device"))};
  auto experiment =
      value_or_throw(train::Experiment::load(MEGATRON_BENCH_MANIFEST, values, registry));
  const DeviceView device = value_or_throw(experiment->device());

  const int64_t b = std::atoll(o.at("batch").c_str()), s = std::atoll(o.at("seq").c_str());
  const int64_t rounds = std::max(1ll, std::atoll(o.at("rounds").c_str()));
  std::vector<Row> rows;
  add_products(rows, b * s);
  add_attention(rows, b, s);
  add_loss(rows, b * s);
  add_rows(rows, b, s);
  fmt::print("{}; batch {}, {} tokens, median of {}\n\n", value_or_throw(device.description()), b,
             s, rounds);
  fmt::print("{:<27} {:<24} {:<11} {:>10} {:>8} {:>8}\n", "op", "", "kernel", "ms", "GF/s", "GB/s");
  for (const Row& row : rows) {
    if (fmt::format("{} {}", row.desc.op, row.variant).find(o.at("filter")) == std::string::npos) {
      continue;
    }
    const auto kernel = value_or_throw(device.prepare(row.desc));
    Operands operands(device, row.desc, kernel.workspace_bytes());
    const double t = seconds(device, kernel, row, operands, rounds);
    int64_t bytes = row.bytes;
    for (const auto* tensors : {&row.desc.inputs, &row.desc.outputs}) {
      for (const auto& tensor : *tensors) bytes += row.bytes == 0 ? tensor.bytes() : 0;
    }
    fmt::print("{:<27} {:<24} {:<11} {:>10.3f} {:>8} {:>8.1f}\n", row.desc.op, row.variant,
               kernel.implementation(), 1e3 * t,
               row.flops > 0 ? fmt::format("{:.1f}", row.flops / t / 1e9) : "",
               static_cast<double>(bytes) / t / 1e9);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options = {
      {"device", "cpu"}, {"batch", "4"}, {"seq", "1024"}, {"rounds", "5"}, {"filter", ""}};
  for (int i = 1; i < argc; i += 2) {
    const auto it = options.find(std::string(argv[i]).substr(0, 2) == "--" ? argv[i] + 2 : "");
    if (it == options.end() || i + 1 == argc) {
      fmt::print(stderr,
                 "usage: device_ops [--device cpu] [--batch 4] [--seq 1024] [--rounds 5] "
                 "[--filter TEXT]\n");
      return 2;
    }
    it->second = argv[i + 1];
  }
  try {
    run(options);
    return 0;
  } catch (const StatusError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
