// Programs compiled for the CPU device and run: results, scalars, accumulation, and what is said
// when something is missing.
#include "runtime/executable.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "graph/text.hpp"
#include "passes/fuse_elementwise.hpp"
#include "support/plugin_fixture.hpp"
#include "unit/train/tiny_gpt.hpp"

namespace megatron::runtime {
namespace {

class Cpu {
 public:
  Cpu() : plugin_(test::load_plugin("device", "cpu")), config_(plugin_, {}) {
    table_ = static_cast<const mgt_device*>(plugin_.table);
    throw_if_error(from_abi(table_->create(test::serial_host(), config_.table(), &self_)));
  }
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;
  ~Cpu() { table_->destroy(self_); }
  DeviceView view() const { return {table_, self_}; }

 private:
  const mgt_plugin& plugin_;
  test::TestConfig config_;
  const mgt_device* table_ = nullptr;
  void* self_ = nullptr;
};

class ExecutableTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Executable>> compile(std::string_view text,
                                              Collectives* collectives = nullptr) {
    auto program = graph::parse(text);
    MGT_CHECK(program.ok(), program.status().message());
    MGT_RETURN_IF_ERROR(passes::fuse_elementwise(*program));  // devices take scalars in chains only
    return Executable::compile(*std::move(program), cpu_.view(), collectives);
  }
  // Compiled and bound; `homes_` are those of the test.
  Executable& make(std::string_view text) {
    executable_ = value_or_throw(compile(text));
    scratch_.assign(static_cast<size_t>(executable_->plan().scratch_bytes + kAlignment), 0);
    void* aligned = scratch_.data();
    size_t space = scratch_.size();
    std::align(kAlignment, 1, aligned, space);
    throw_if_error(executable_->bind(aligned, homes_).status());
    return *executable_;
  }
  std::vector<float> output(size_t index) {
    const auto& p = executable_->program();
    const auto v = p.outputs[index].value;
    std::vector<float> out(static_cast<size_t>(p.type(v).elements()));
    throw_if_error(executable_->fetch(v, out.data()));
    return out;
  }
  void feed(std::string_view name, const std::vector<float>& data) {
    throw_if_error(executable_->feed(executable_->program().find(name), data.data()));
  }
  void run() { throw_if_error(executable_->run({1, 2, 3})); }

  const Cpu cpu_;
  Homes homes_;
  std::vector<char> scratch_;
  std::unique_ptr<Executable> executable_;
};

TEST_F(ExecutableTest, ScalarsAreEvaluatedBeforeTheKernels) {
  auto& e = make(
      "program p\n"
      "input %x : f32[3]\n"
      "scalar %step\n"
      "constant %beta = 0.9\n"
      "constant %one = 1\n"
      "%power = pow(%beta, %step) : f64[]\n"
      "%rest = sub(%one, %power) : f64[]\n"
      "%y = div(%x, %rest) : f32[3]\n"
      "output y = %y\n"
      "end\n");
  EXPECT_TRUE(e.has_scalar("step"));
  EXPECT_FALSE(e.has_scalar("lr"));
  for (const double step : {1.0, 7.0}) {
    e.set_scalar("step", step);
    feed("x", {1, 2, -3});
    run();
    const double rest = 1 - std::pow(0.9, step);
    EXPECT_FLOAT_EQ(output(0)[1], static_cast<float>(2 / rest));
    EXPECT_FLOAT_EQ(output(0)[2], static_cast<float>(-3 / rest));
  }
}

TEST_F(ExecutableTest, AccumulatesWhenTheFlagSaysSo) {
  std::vector<float> grad(2, 100.0F);
  homes_["g"] = grad.data();
  auto& e = make(
      "program p\n"
      "state %g : f32[n=2]\n"
      "input %dy : f32[m=3, n=2]\n"
      "scalar %accumulate\n"
      "%s = sum(%dy, %accumulate) {keep = 1} : f32[n=2] add into %g backward\n"
      "end\n");
  e.set_scalar("accumulate", 0);
  feed("dy", {1, 2, 3, 4, 5, 6});
  run();
  EXPECT_EQ(grad, (std::vector<float>{9, 12}));
  e.set_scalar("accumulate", 1);
  run();
  EXPECT_EQ(grad, (std::vector<float>{18, 24}));
}

TEST_F(ExecutableTest, UpdatesInPlace) {
  std::vector<float> w = {1, 2, 3};
  homes_["w"] = w.data();
  auto& e = make(
      "program p\n"
      "parameter %w : f32[3] = zeros\n"
      "scalar %lr\n"
      "%step = mul(%w, %lr) : f32[3] update\n"
      "%w2 = sub(%w, %step) : f32[3] into %w update\n"
      "end\n");
  e.set_scalar("lr", 0.5);
  run();
  run();
  EXPECT_EQ(w, (std::vector<float>{0.25F, 0.5F, 0.75F}));
}

TEST_F(ExecutableTest, ReportsWorkAndTimeByOp) {
  auto& e = make(
      "program p\n"
      "input %x : f32[m=4, k=3]\n"
      "input %w : f32[n=2, k=3]\n"
      "%y = linear(%x, %w) {contract = 1} : f32[m=4, n=2]\n"
      "%z = linear(%y, %y) {contract = 2} : f32[]\n"
      "output z = %z\n"
      "end\n");
  EXPECT_EQ(e.flops(), 2.0 * 4 * 3 * 2 + 2.0 * 4 * 2);
  e.enable_profile();
  run();
  run();
  const auto rows = e.profile();
  ASSERT_GE(rows.size(), 1U);
  int64_t calls = 0;
  double flops = 0;
  for (const auto& row : rows) {
    EXPECT_EQ(row.op, "linear");
    EXPECT_FALSE(row.implementation.empty());
    calls += row.calls;
    flops += row.flops;
  }
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(flops, 2 * e.flops());
}

TEST_F(ExecutableTest, ACollectiveWithoutBackEndIsAnError) {
  const auto e = compile(
      "program p\n"
      "input %x : f32[3]\n"
      "%y = all_reduce(%x) {axis = \"tensor\", reduce = \"sum\"} : f32[3]\n"
      "output y = %y\n"
      "end\n");
  ASSERT_TRUE(e.ok()) << "its memory can be planned";
  std::vector<char> scratch(static_cast<size_t>((*e)->plan().scratch_bytes));
  const auto bound = (*e)->bind(scratch.data(), {});
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.status().message(),
            "op 'all_reduce' over mesh axis 'tensor' cannot run\n"
            "  this run has no communication back end\n"
            "  fix: start it on all ranks of the mesh, or give the axis the size 1");
}

// Counts its calls, and fails at the second.
class FailingCollectives final : public Collectives {
 public:
  Status run(const Collective& what, const void*, void*) override {
    last = what;
    return ++calls == 2 ? Status(Code::deadline_exceeded, "rank 3 did not arrive") : Status();
  }
  Status complete_send(const void*) override { return {}; }
  Status gather(std::string_view, std::string_view, std::span<const double>,
                std::span<double>) override {
    return {};
  }
  Collective last;
  int calls = 0;
};

TEST_F(ExecutableTest, AFailingCollectiveSaysWhereTheProgramWas) {
  FailingCollectives collectives;
  auto e = value_or_throw(
      compile("program train\n"
              "input %x : f32[3]\n"
              "%y = all_reduce(%x) {axis = \"tensor\", reduce = \"max\"} : f32[3] @ layers.1.mlp\n"
              "send(%y) {axis = \"pipeline\", peer = 1, tag = \"y@1\"}\n"
              "end\n",
              &collectives));
  std::vector<char> scratch(4096 + kAlignment);
  throw_if_error(e->bind(scratch.data(), {}).status());
  EXPECT_EQ(e->run({}).message(),
            "rank 3 did not arrive\n  while running op 'send' in program 'train'");
  EXPECT_EQ(collectives.last.name, "y@1");
  EXPECT_EQ(collectives.last.peer, 1);
  EXPECT_EQ(collectives.last.send_elements, 3);
  EXPECT_EQ(collectives.last.recv_elements, 0);
  EXPECT_EQ(e->run({}).message(), "") << "the third call works, the fourth too";
}

TEST_F(ExecutableTest, NumbersWithoutHostFormAreFoundWhenCompiling) {
  const auto e = compile("program p\nscalar %s\n%g = gelu(%s) : f64[]\nend\n");
  ASSERT_FALSE(e.ok());
  EXPECT_EQ(e.status().message(),
            "op 'gelu' cannot take numbers alone\n"
            "  the host evaluates them and has no form of it\n"
            "  fix: apply it to a tensor");
}

TEST_F(ExecutableTest, AStateWithoutMemoryIsAnError) {
  auto e =
      value_or_throw(compile("program p\nstate %m : f32[3]\n%y = neg(%m) : f32[3]\n"
                             "output y = %y\nend\n"));
  std::vector<char> scratch(4096);
  EXPECT_EQ(e->bind(scratch.data(), {}).status().message(), "'m' has no memory");
}

// A device that tells what was taken from it.
class Taken {
 public:
  explicit Taken(const mgt_device& device) {
    device_ = &device;
    blocks_.clear();
    table_ = device;
    table_.allocate = allocate;
  }
  const mgt_device* table() const { return &table_; }
  struct Block {
    uintptr_t begin;
    int64_t bytes;
  };
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  static mgt_status* allocate(void* self, uint64_t bytes, void** out) {
    mgt_status* status = device_->allocate(self, bytes, out);
    blocks_.push_back({reinterpret_cast<uintptr_t>(*out), static_cast<int64_t>(bytes)});
    return status;
  }
  static inline const mgt_device* device_ = nullptr;
  static inline std::vector<Block> blocks_;
  mgt_device table_;
};

// The arena of a run holds the weights, gradients and states page by page, and the scratch of the
// largest program: what was planned is what is allocated, in one piece.
TEST(Arena, IsWhatThePlansSay) {
  test::TinyGpt gpt;
  const Taken taken(gpt.device_table());
  gpt.use_device_table(*taken.table());
  const auto engine = gpt.engine();
  const test::TinyBatch batch;
  std::vector<train::LossValue> losses;
  throw_if_error(engine->forward_backward(batch.feed(), 1, losses));
  throw_if_error(engine->reduce_gradients().status());
  throw_if_error(engine->update(1.0, 1e-3, 0.1, 1));
  ASSERT_EQ(taken.blocks().size(), 1U);
  const auto [begin, bytes] = taken.blocks()[0];
  EXPECT_EQ(bytes, engine->memory().total());
  for (const auto* tensors : {&engine->parameters(), &engine->programs().gradients,
                              &engine->gradients(), &engine->optimizer_states()}) {
    for (const auto& tensor : *tensors) {
      const auto home = reinterpret_cast<uintptr_t>(tensor.home);
      EXPECT_GE(home, begin) << tensor.name;
      EXPECT_LE(home + static_cast<uintptr_t>(tensor.local.bytes()),
                begin + static_cast<uintptr_t>(bytes))
          << tensor.name;
    }
  }
  const auto pages = [](const std::vector<train::PersistentTensor>& tensors) {
    return std::accumulate(
        tensors.begin(), tensors.end(), int64_t{0},
        [](int64_t n, const auto& t) { return n + (t.local.bytes() + 4095) / 4096 * 4096; });
  };
  const auto memory = engine->memory();
  EXPECT_EQ(memory.parameters, pages(engine->parameters()));
  EXPECT_EQ(memory.gradients, pages(engine->programs().gradients));
  EXPECT_EQ(memory.optimizer_states, pages(engine->optimizer_states()));
  EXPECT_GE(memory.scratch, engine->step_work()[0].executable->plan().scratch_bytes);
  EXPECT_GE(memory.scratch, engine->step_work().back().executable->plan().scratch_bytes);
  EXPECT_EQ(memory.total(), memory.parameters + memory.gradients + memory.optimizer_states +
                                memory.activations + memory.scratch);
  const auto& plan = engine->step_work()[0].executable->plan();
  EXPECT_LE(static_cast<double>(plan.scratch_bytes),
            1.02 * static_cast<double>(plan.live_peak_bytes));
}

}  // namespace
}  // namespace megatron::runtime
