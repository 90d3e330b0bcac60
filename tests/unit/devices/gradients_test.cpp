// The gradient of every op that has one against finite differences: a program of that op alone is
// differentiated, run on the CPU device, and compared along a random direction with
//   (4·D(h/2) − D(h)) / 3,  D(h) = (L(w + h·u) − L(w − h·u)) / 2h   (Richardson 1911),
// where L = Σ r·y with random r. What is cut off is O(h⁴); f32's rounding gives about 2⁻²⁴/h.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "graph/op.hpp"
#include "graph/text.hpp"
#include "megatron/philox.hpp"
#include "passes/autodiff.hpp"
#include "passes/fuse_elementwise.hpp"
#include "runtime/executable.hpp"
#include "support/plugin_fixture.hpp"

namespace megatron {
namespace {

constexpr double kStep = 0x1p-6;
constexpr double kTolerance = 2e-4;  // of the gradient's length

struct GradientCase {
  std::string_view name;  // the op, and a variant behind '/'
  double low, high;       // of the parameters
  // Declarations and nodes; they give %y of type `y`. Inputs are random ids below 4.
  std::string_view declarations, nodes, y;

  std::string_view op() const { return name.substr(0, name.find('/')); }
};

std::ostream& operator<<(std::ostream& out, const GradientCase& c) { return out << c.name; }

constexpr std::string_view kTwo =
    "parameter %a : f32[m=4, n=3] = zeros\nparameter %b : f32[m=4, n=3] = zeros\n";
constexpr std::string_view kRow =
    "parameter %a : f32[m=4, n=3] = zeros\nparameter %b : f32[n=3] = zeros\n";
constexpr std::string_view kOne = "parameter %a : f32[m=4, n=3] = zeros\n";
constexpr std::string_view kType = "f32[m=4, n=3]";
constexpr std::string_view kHeads =
    "parameter %q : f32[b=2, s=5, heads=4, 3] = zeros\n"
    "parameter %k : f32[b=2, t=5, groups=2, 3] = zeros\n"
    "parameter %v : f32[b=2, t=5, groups=2, 3] = zeros\n";
constexpr std::string_view kHeadsTypes = "f32[b=2, s=5, heads=4, 3], f32[b=2, heads=4, s=5]";

constexpr GradientCase kCases[] = {
    {"add", -1, 1, kTwo, "%y = add(%a, %b)", kType},
    {"add/row", -1, 1, kRow, "%y = add(%a, %b)", kType},
    {"sub", -1, 1, kTwo, "%y = sub(%a, %b)", kType},
    {"sub/row", -1, 1, kRow, "%y = sub(%a, %b)", kType},
    {"mul", -1, 1, kTwo, "%y = mul(%a, %b)", kType},
    {"mul/row", -1, 1, kRow, "%y = mul(%a, %b)", kType},
    {"div", 0.5, 2, kTwo, "%y = div(%a, %b)", kType},
    {"div/row", 0.5, 2, kRow, "%y = div(%a, %b)", kType},
    {"pow", 0.5, 2, kTwo, "%y = pow(%a, %b)", kType},
    {"maximum", -1, 1, kTwo, "%y = maximum(%a, %b)", kType},
    {"minimum", -1, 1, kTwo, "%y = minimum(%a, %b)", kType},
    {"minimum/row", -1, 1, kRow, "%y = minimum(%a, %b)", kType},
    {"neg", -1, 1, kOne, "%y = neg(%a)", kType},
    {"square", -1, 1, kOne, "%y = square(%a)", kType},
    {"sqrt", 0.5, 2, kOne, "%y = sqrt(%a)", kType},
    {"rsqrt", 0.5, 2, kOne, "%y = rsqrt(%a)", kType},
    {"exp", -1, 1, kOne, "%y = exp(%a)", kType},
    {"log", 0.5, 2, kOne, "%y = log(%a)", kType},
    {"tanh", -1, 1, kOne, "%y = tanh(%a)", kType},
    {"gelu", -2, 2, kOne, "%y = gelu(%a)", kType},
    {"dropout", -1, 1, kOne, "%y = dropout(%a) {p = 0.4, site = \"h.0\"}", kType},
    {"sum", -1, 1, kOne, "%y = sum(%a) {keep = 1}", "f32[n=3]"},
    {"sum/all", -1, 1, kOne, "%y = sum(%a) {keep = 0}", "f32[]"},
    {"linear", -1, 1,
     "parameter %x : f32[m=4, k=3] = zeros\nparameter %w : f32[n=5, k=3] = zeros\n",
     "%y = linear(%x, %w) {contract = 1}", "f32[m=4, n=5]"},
    {"linear/groups", -1, 1,
     "parameter %x : f32[b=2, m=2, h=3, d=2] = zeros\n"
     "parameter %w : f32[n=5, h=3, d=2] = zeros\n",
     "%y = linear(%x, %w) {contract = 2}", "f32[b=2, m=2, n=5]"},
    {"embedding", -1, 1,
     "parameter %table : f32[vocab=4, k=3] = zeros\ninput %ids : i32[b=2, m=3]\n",
     "%y = embedding(%ids, %table)", "f32[b=2, m=3, k=3]"},
    {"layer_norm", -1, 1,
     "parameter %x : f32[m=4, k=6] = zeros\n"
     "parameter %gain : f32[k=6] = ones\nparameter %bias : f32[k=6] = zeros\n",
     "%y, %mean, %rstd = layer_norm(%x, %gain, %bias) {epsilon = 1e-05}",
     "f32[m=4, k=6], f32[m=4], f32[m=4]"},
    {"attention", -1, 1, kHeads, "%y, %lse = attention(%q, %k, %v) {causal = 1, scale = 0.7}",
     kHeadsTypes},
    {"attention/dropout", -1, 1, kHeads,
     "%y, %lse = attention(%q, %k, %v) {causal = 0, dropout = 0.3, scale = 0.7, site = \"h.0\"}",
     kHeadsTypes},
    {"linear_cross_entropy", -1, 1,
     "parameter %x : f32[m=6, k=3] = zeros\nparameter %w : f32[vocab=4, k=3] = zeros\n"
     "parameter %scale : f32[m=6] = ones\ninput %labels : i32[m=6]\n",
     "%lse, %target = linear_cross_entropy(%x, %w, %labels) : f32[m=6], f32[m=6]\n"
     "%scaled = mul(%lse, %scale) : f32[m=6]\n"
     "%y = sub(%scaled, %target)",
     "f32[m=6]"},
};

class GradientTest : public ::testing::TestWithParam<std::tuple<GradientCase, std::string>> {
 protected:
  GradientTest()
      : plugin_(test::load_plugin("device", "cpu")),
        config_(plugin_, {{"implementation", std::get<1>(GetParam())}}) {
    table_ = static_cast<const mgt_device*>(plugin_.table);
    throw_if_error(from_abi(table_->create(test::serial_host(), config_.table(), &self_)));
  }
  ~GradientTest() override {
    executable_.reset();
    table_->destroy(self_);
  }

  const GradientCase& test_case() const { return std::get<0>(GetParam()); }

  // The case's program with its gradients, ready to run.
  void compile() {
    const GradientCase& c = test_case();
    const auto y = c.y.substr(0, c.y.find(']') + 1);  // of the first result
    const std::string source =
        text("program p\n", c.declarations, "input %r : ", y, "\n", c.nodes, " : ", c.y,
             "\n%z = mul(%y, %r) : ", y, "\n%sum = sum(%z) {keep = 0} : f32[]\n",
             "output y = %y\nloss lm = %sum / %sum weight 1\nend\n");
    auto program = value_or_throw(passes::differentiate(value_or_throw(graph::parse(source))));
    throw_if_error(passes::fuse_elementwise(program));
    executable_ = value_or_throw(runtime::Executable::compile(std::move(program), {table_, self_}));
    fill();
    executable_->set_scalar("grad_seed.lm", 1);
    executable_->set_scalar("accumulate", 0);
  }

  // sum(r·y), in double.
  double loss() {
    feed();
    throw_if_error(executable_->run({5, 2, 0}));
    std::vector<float> y(r_.size());
    throw_if_error(executable_->fetch(executable_->program().outputs[0].value, y.data()));
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i)
      sum += static_cast<double>(y[i]) * static_cast<double>(r_[i]);
    return sum;
  }

  float uniform(double low, double high) {
    return static_cast<float>(std::uniform_real_distribution<double>(low, high)(random_));
  }

  std::mt19937 random_{static_cast<uint32_t>(site_of(test_case().name))};
  std::unique_ptr<runtime::Executable> executable_;
  std::map<std::string, std::vector<float>> memory_;
  std::vector<std::string> parameters_;

 private:
  void fill() {
    const auto& p = executable_->program();
    runtime::Homes homes;
    for (graph::ValueId v = 0; v < static_cast<graph::ValueId>(p.values.size()); ++v) {
      const auto& value = p.values[v];
      const auto n = static_cast<size_t>(value.type.elements());
      if (value.kind == graph::ValueKind::parameter || value.kind == graph::ValueKind::state) {
        auto& memory = memory_[value.name];
        memory.assign(n, NAN);
        homes[value.name] = memory.data();
      }
      if (value.kind == graph::ValueKind::parameter) parameters_.push_back(value.name);
    }
    // Two parameters never come near one another: where a maximum has its kink, a difference has no
    // meaning.
    std::uniform_int_distribution<int> grid(0, 15);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      for (float& w : memory_[parameters_[i]]) {
        const int place = 2 * grid(random_) + static_cast<int>(i % 2);
        w = static_cast<float>(test_case().low +
                               (test_case().high - test_case().low) * place / 31.0);
      }
    }
    scratch_.assign(static_cast<size_t>(executable_->plan().scratch_bytes) + 4096, 0);
    void* aligned = scratch_.data();
    size_t space = scratch_.size();
    std::align(4096, 1, aligned, space);
    (void)value_or_throw(executable_->bind(aligned, homes));
    for (graph::ValueId v = 0; v < static_cast<graph::ValueId>(p.values.size()); ++v) {
      const auto& value = p.values[v];
      if (value.kind != graph::ValueKind::input) continue;
      const auto n = static_cast<size_t>(value.type.elements());
      if (value.type.dtype == DType::i32) {
        auto& ids = ids_[v];
        ids.resize(n);
        for (auto& id : ids) id = std::uniform_int_distribution<int32_t>(0, 3)(random_);
      } else {
        r_.resize(n);
        for (auto& x : r_) x = uniform(0.5, 1.5);
      }
    }
  }
  // Before every run: an input's memory serves other values after its last use.
  void feed() {
    throw_if_error(executable_->feed(executable_->program().find("r"), r_.data()));
    for (const auto& [input, ids] : ids_) throw_if_error(executable_->feed(input, ids.data()));
  }

  const mgt_plugin& plugin_;
  test::TestConfig config_;
  const mgt_device* table_ = nullptr;
  void* self_ = nullptr;
  std::vector<char> scratch_;
  std::vector<float> r_;
  std::map<graph::ValueId, std::vector<int32_t>> ids_;
};

TEST_P(GradientTest, AgreesWithDifferences) {
  compile();
  for (const auto& name : parameters_) {
    SCOPED_TRACE(name);
    loss();  // gradients at the start
    const std::vector<float> gradient = memory_.at(text("grad.", name));
    auto& w = memory_.at(name);
    const std::vector<float> start = w;
    std::vector<double> direction(w.size());
    double along = 0, length = 0, step = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      direction[i] = static_cast<double>(uniform(-1, 1));
      along += static_cast<double>(gradient[i]) * direction[i];
      length += std::pow(static_cast<double>(gradient[i]), 2);
      step += direction[i] * direction[i];
    }
    const auto at = [&](double h) {
      for (size_t i = 0; i < w.size(); ++i) {
        w[i] = static_cast<float>(static_cast<double>(start[i]) + h * direction[i]);
      }
      return loss();
    };
    const auto slope = [&](double h) { return (at(h) - at(-h)) / (2 * h); };
    const double want = (4 * slope(kStep / 2) - slope(kStep)) / 3;
    w = start;
    EXPECT_GT(length, 0);
    EXPECT_NEAR(along, want, kTolerance * std::sqrt(length * step));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values("reference", "auto")),
                         [](const auto& row) {
                           std::string name(std::get<0>(row.param).name);
                           std::ranges::replace(name, '/', '_');
                           return name + "_" + std::get<1>(row.param);
                         });

TEST(Gradients, EveryOpThatHasOneHasACase) {
  for (const auto& op : graph::op_table()) {
    if (op.gradient == nullptr) continue;
    EXPECT_TRUE(std::ranges::any_of(kCases, [&](const auto& c) { return c.op() == op.name; }))
        << "add op '" << op.name << "' to kCases";
  }
}

}  // namespace
}  // namespace megatron
