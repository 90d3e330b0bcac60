// The bet of the design, tested: one logical GPT, every parallelism as a placement, each layout's
// loss and gradients equal to one rank's. Ranks are threads of this process; docs/adr/0001 has the
// table.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "graph/op.hpp"
#include "megatron/device/device_view.hpp"
#include "passes/autodiff.hpp"
#include "passes/local_runs.hpp"
#include "passes/partition.hpp"
#include "passes/pipeline.hpp"
#include "passes/pipeline_cut.hpp"
#include "runtime/executable.hpp"
#include "support/plugin_fixture.hpp"
#include "support/simulated_mesh.hpp"
#include "train/initialize.hpp"
#include "train/model_programs.hpp"

namespace megatron {
namespace {

using passes::Layout;
using passes::Place;
using passes::Stationary;

constexpr int64_t kMicroBatch = 2;
constexpr int64_t kMicroBatches = 4;  // of the global batch
constexpr int64_t kSeq = 8;
constexpr int64_t kVocab = 11;
constexpr uint64_t kSeed = 77;

struct Case {
  std::string name;
  int64_t pipeline = 1, data = 1, context = 1, tensor = 1;
  bool ring = false;
  bool all_to_all = false;
  bool sequence_parallel = false;
  int zero = 0;
  int64_t vocab_multiple = 1;
};

Layout make_layout(const Case& c) {
  Layout l;
  l.axes = {{"pipeline", c.pipeline, Stationary::activations},
            {"data", c.data, Stationary::activations},
            {"context", c.context, Stationary::activations},
            {"tensor", c.tensor, Stationary::weights}};
  l.mappings = {{.logical = "batch", .mesh = "data", .instances = true},
                {.logical = "seq", .mesh = "context", .cut = Cut::balanced},
                {.logical = "heads", .mesh = "tensor"},
                {.logical = "mlp", .mesh = "tensor", .padded = true},
                {.logical = "vocab", .mesh = "tensor", .padded = true}};
  if (c.all_to_all) {
    l.mappings.push_back({.logical = "heads", .mesh = "context", .secondary = true});
    l.all_to_all_axis = "context";
  }
  if (c.sequence_parallel)
    l.mappings.push_back({.logical = "seq", .mesh = "tensor", .secondary = true});
  if (c.ring) l.ring_axis = "context";
  if (c.zero > 0) {
    l.zero_axis = "data";
    l.zero_stage = c.zero;
  }
  if (c.pipeline > 1) l.pipeline_axis = "pipeline";
  if (c.vocab_multiple > 1) l.multiples["vocab"] = c.vocab_multiple;
  return l;
}

// Logical tensors of a run, by name.
struct Outcome {
  double loss_sum = 0;
  double loss_count = 0;
  std::map<std::string, std::vector<double>> gradients;
};

class Experiment {
 public:
  explicit Experiment(const std::string& implementation)
      : model_plugin_(test::load_plugin("model", "gpt")),
        device_plugin_(test::load_plugin("device", "cpu")),
        model_config_(model_plugin_, {{"num_layers", int64_t{2}},
                                      {"hidden_size", int64_t{8}},
                                      {"num_attention_heads", int64_t{4}},
                                      {"ffn_hidden_size", int64_t{7}},  // divides by nothing
                                      {"seq_length", kSeq},
                                      {"init_method_std", 0.3},
                                      {"hidden_dropout", 0.2},
                                      {"attention_dropout", 0.2}}),
        device_config_(device_plugin_, {{"implementation", implementation}}) {
    const auto* model = static_cast<const mgt_model*>(model_plugin_.table);
    mgt_model_context context;
    MGT_INIT(&context);
    context.vocab_size = kVocab;
    void* self = nullptr;
    throw_if_error(
        from_abi(model->create(test::serial_host(), model_config_.table(), &context, &self)));
    auto loss = value_or_throw(train::build_model_program({model, self}, "loss", kMicroBatch));
    train_ = value_or_throw(passes::differentiate(std::move(loss)));
    model->destroy(self);
  }

  Outcome run(const Case& c) {
    const Layout layout = make_layout(c);
    test::SimulatedMesh mesh(layout);
    Outcome total;
    std::mutex mutex;
    std::vector<std::thread> ranks;
    for (int64_t r = 0; r < layout.world_size(); ++r) {
      ranks.emplace_back([&, r] {
        const Outcome mine = run_rank(layout, r, mesh);
        const std::lock_guard lock(mutex);
        total.loss_sum += mine.loss_sum;
        total.loss_count += mine.loss_count;
        for (const auto& [name, g] : mine.gradients) add(total.gradients[name], g);
      });
    }
    for (auto& t : ranks) t.join();
    return total;
  }

 private:
  static void add(std::vector<double>& to, const std::vector<double>& from) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] += from[i];
  }

  // This rank's share of the whole: what it alone holds, or its part of a partial sum.
  Outcome run_rank(const Layout& layout, int64_t rank, test::SimulatedMesh& mesh) const {
    const auto coordinates = layout.coordinates(rank);
    passes::PartitionRequest request;
    request.layout = &layout;
    request.coordinates = coordinates;
    auto partitioned = value_or_throw(passes::partition(train_, request));
    graph::Program program = std::move(partitioned.program);
    if (const auto axis = layout.axis(layout.pipeline_axis)) {
      const auto cut = value_or_throw(passes::make_cut(layout, passes::block_count(train_)));
      program = value_or_throw(passes::cut_stage(program, cut, coordinates[*axis]));
    }
    throw_if_error(passes::run_passes(program, passes::optimisation_passes()));

    const auto* table = static_cast<const mgt_device*>(device_plugin_.table);
    void* self = nullptr;
    throw_if_error(from_abi(table->create(test::serial_host(), device_config_.table(), &self)));
    const DeviceView device(table, self);
    const auto collectives = mesh.rank(rank);
    auto executable =
        value_or_throw(runtime::Executable::compile(program, device, collectives.get()));

    // Weights and gradients.
    std::map<std::string, std::vector<float>> memory;
    runtime::Homes homes;
    for (const auto& value : program.values) {
      if (value.kind != graph::ValueKind::parameter && value.kind != graph::ValueKind::state)
        continue;
      auto& m = memory[value.name];
      m.assign(static_cast<size_t>(value.type.elements()), 0.0F);
      homes[value.name] = m.data();
    }
    for (const auto& p : program.parameters) {
      const auto& name = program.values[p.value].name;
      train::initialize(
          p.init, kSeed, name,
          runs(layout, coordinates, partitioned.placements.at(name), logical_type(name)),
          memory[name]);
    }
    std::vector<char> scratch(
        static_cast<size_t>(executable->plan().scratch_bytes + runtime::kAlignment));
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(runtime::kAlignment, 1, aligned, space);
    throw_if_error(executable->bind(aligned, homes));

    // Every rank of the data axis takes a block of consecutive micro-batches.
    const auto data = layout.axis("data");
    const int64_t share = kMicroBatches / (data ? layout.axes[*data].size : 1);
    const int64_t begin = data ? coordinates[*data] * share : 0;
    Outcome out;
    for (int64_t m = 0; m < share; ++m) {
      if (executable->has_scalar("accumulate"))
        executable->set_scalar("accumulate", m == 0 ? 0 : 1);
      if (executable->has_scalar("grad_seed.lm"))
        executable->set_scalar("grad_seed.lm", 1.0 / total_count());
      for (const auto v : program.inputs) feed(*executable, program.values[v], v, begin + m);
      throw_if_error(executable->run({kSeed, 3, (begin + m) * kMicroBatch}));
      for (const auto& loss : program.losses) {
        if (counts(layout, coordinates, partitioned.placements.at("loss.lm.sum"))) {
          out.loss_sum += value_or_throw(executable->fetch_number(loss.sum));
        }
        if (counts(layout, coordinates, partitioned.placements.at("loss.lm.count"))) {
          out.loss_count += value_or_throw(executable->fetch_number(loss.count));
        }
      }
    }
    for (const auto& value : program.values) {
      if (value.kind != graph::ValueKind::state) continue;
      const auto& placement = partitioned.placements.at(value.name);
      const auto& logical = logical_type(value.name);
      auto& g = out.gradients[value.name];
      g.assign(static_cast<size_t>(logical.elements()), 0.0);
      if (!counts(layout, coordinates, placement)) continue;
      for (const auto& run : runs(layout, coordinates, placement, logical)) {
        for (int64_t i = 0; i < run.length; ++i) {
          g[static_cast<size_t>(run.logical_begin + i)] =
              static_cast<double>(memory[value.name][static_cast<size_t>(run.local_begin + i)]);
        }
      }
    }
    executable.reset();
    table->destroy(self);
    return out;
  }

  const graph::Type& logical_type(const std::string& name) const {
    return train_.values[train_.find(name)].type;
  }
  static std::vector<passes::Run> runs(const Layout& layout,
                                       const std::vector<int64_t>& coordinates,
                                       const passes::Placement& placement,
                                       const graph::Type& logical) {
    return passes::local_runs(layout, coordinates, logical, placement);
  }

  // Whether this rank's copy of a value enters a sum over all ranks.
  static bool counts(const Layout& layout, const std::vector<int64_t>& coordinates,
                     const passes::Placement& placement) {
    for (size_t m = 0; m < placement.size(); ++m) {
      const bool pipeline = layout.axes[m].name == layout.pipeline_axis;  // a stage has it or not
      if (placement[m].is(Place::Kind::replicate) && coordinates[m] != 0 && !pipeline) return false;
    }
    return true;
  }

  // Tokens, labels and mask of the global batch, by logical coordinates.
  static int32_t token(int64_t sample, int64_t position) {
    return static_cast<int32_t>((sample * 7 + position * position * 3 + position) % kVocab);
  }
  static float mask(int64_t sample, int64_t position) {
    return (sample + position) % 5 == 0 ? 0.0F : 1.0F;
  }
  static double total_count() {
    double n = 0;
    for (int64_t s = 0; s < kMicroBatch * kMicroBatches; ++s) {
      for (int64_t p = 0; p < kSeq; ++p) n += static_cast<double>(mask(s, p));
    }
    return n;
  }
  static void feed(runtime::Executable& executable, const graph::Value& value, graph::ValueId id,
                   int64_t micro_batch) {
    std::vector<int32_t> words;
    const int64_t length = value.type.dims[1].size;
    for (int64_t b = 0; b < kMicroBatch; ++b) {
      for (int64_t j = 0; j < length; ++j) {
        const int64_t position = value.maps.empty() ? j : value.maps[1].global(j);
        const int64_t sample = micro_batch * kMicroBatch + b;
        if (value.name.starts_with("tokens")) {
          words.push_back(token(sample, position));
        } else if (value.name.starts_with("labels")) {
          words.push_back(token(sample, position + 1));
        } else if (value.name.starts_with("position_ids")) {
          words.push_back(static_cast<int32_t>(position));
        } else {
          words.push_back(std::bit_cast<int32_t>(mask(sample, position)));
        }
      }
    }
    throw_if_error(executable.feed(id, words.data()));
  }

  const mgt_plugin& model_plugin_;
  const mgt_plugin& device_plugin_;
  test::TestConfig model_config_;
  test::TestConfig device_config_;
  graph::Program train_;
};

double norm(const std::vector<double>& x) {
  double n = 0;
  for (const double v : x) n += v * v;
  return std::sqrt(n);
}

// Largest ‖g − g₁‖ / ‖g₁‖ over parameters. The key bias has no gradient in exact arithmetic
// (softmax does not feel a shift of all keys) and is left out by name.
double gradient_difference(const Outcome& a, const Outcome& one) {
  double worst = 0;
  EXPECT_EQ(a.gradients.size(), one.gradients.size());
  for (const auto& [name, g] : one.gradients) {
    if (name.ends_with("attention.key.bias")) continue;
    const auto it = a.gradients.find(name);
    if (it == a.gradients.end()) {
      ADD_FAILURE() << name;
      continue;
    }
    std::vector<double> difference = g;
    for (size_t i = 0; i < g.size(); ++i) difference[i] -= it->second[i];
    worst = std::max(worst, norm(difference) / norm(g));
  }
  return worst;
}

class LayoutSpike : public testing::TestWithParam<std::string> {};

TEST_P(LayoutSpike, EveryLayoutEqualsOneRank) {
  const std::vector<Case> cases = {
      {.name = "TP 2", .tensor = 2},
      {.name = "TP 2, sequence parallel", .tensor = 2, .sequence_parallel = true},
      {.name = "DP 2", .data = 2},
      {.name = "DP 4", .data = 4},
      {.name = "PP 2", .pipeline = 2},
      {.name = "CP 2, ring", .context = 2, .ring = true},
      {.name = "CP 2, all-gather", .context = 2},
      {.name = "CP 2, all-to-all", .context = 2, .all_to_all = true},
      {.name = "ZeRO-1, DP 2", .data = 2, .zero = 1},
      {.name = "ZeRO-2, DP 2", .data = 2, .zero = 2},
      {.name = "ZeRO-3, DP 2", .data = 2, .zero = 3},
      {.name = "vocabulary padded to 16", .vocab_multiple = 16},
      {.name = "TP 2, vocabulary padded to 16", .tensor = 2, .vocab_multiple = 16},
      {.name = "TP 2, CP 2 ring", .context = 2, .tensor = 2, .ring = true},
      {.name = "TP 2 SP, CP 2 all-to-all",
       .context = 2,
       .tensor = 2,
       .all_to_all = true,
       .sequence_parallel = true},
      {.name = "TP 2 SP, CP 2 ring, DP 2",
       .data = 2,
       .context = 2,
       .tensor = 2,
       .ring = true,
       .sequence_parallel = true},
      {.name = "PP 2, TP 2, DP 2", .pipeline = 2, .data = 2, .tensor = 2},
      {.name = "PP 2, CP 2 ring, ZeRO-3 DP 2",
       .pipeline = 2,
       .data = 2,
       .context = 2,
       .ring = true,
       .zero = 3},
      {.name = "PP 2, TP 2 SP, CP 2 ring, ZeRO-3 DP 2",
       .pipeline = 2,
       .data = 2,
       .context = 2,
       .tensor = 2,
       .ring = true,
       .sequence_parallel = true,
       .zero = 3},
  };
  Experiment experiment(GetParam());
  const Outcome one = experiment.run({.name = "one rank"});
  std::printf("%-44s %12s %12s\n", "layout", "loss", "gradients");
  std::printf("%-44s %12.7f %12s\n", "one rank", one.loss_sum / one.loss_count, "");
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    const Outcome many = experiment.run(c);
    EXPECT_EQ(many.loss_count, one.loss_count);
    const double loss = std::abs(many.loss_sum - one.loss_sum) / one.loss_sum;
    const double gradients = gradient_difference(many, one);
    std::printf("%-44s %12.2e %12.2e\n", c.name.c_str(), loss, gradients);
    EXPECT_LE(loss, 1e-6);
    EXPECT_LE(gradients, 1e-5);
    // Where nothing is summed in another order, nothing may differ.
    if (c.pipeline > 1 && c.data * c.context * c.tensor == 1) {
      EXPECT_TRUE(many.gradients == one.gradients);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, LayoutSpike, testing::Values("auto", "reference"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace megatron
