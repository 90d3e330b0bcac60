// Ops that join others are those others: a fused chain its instructions one by one, the training
// loss the loss and its gradient, attention in tiles the plain softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <sstream>
#include <variant>

#include "elementwise/expression.hpp"
#include "unit/devices/pool_host.hpp"
#include "unit/devices/run_case.hpp"

namespace megatron::cpu::testing {
namespace {

class FusedTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  std::vector<Values> run_case(const OpCase& c) const { return run(c, GetParam(), pool_.host()); }

  const PoolHost pool_{2};
};

struct Tensor {
  TensorDesc desc;
  Values values;
};
using Value = std::variant<double, Tensor>;  // a number is a scalar of the host

// One instruction as a program without fusion would run it: numbers on the host, tensors by a
// kernel.
class OneByOne {
 public:
  OneByOne(const OpCase& c, std::function<Values(const OpCase&)> run)
      : c_(c), run_(std::move(run)) {}

  std::vector<Values> outputs() {
    const Expression x = expression_of(c_.desc);
    for (const auto& in : x.instructions) {
      results_.push_back(apply(in));
    }
    std::vector<Values> out;
    for (const auto& o : x.outputs) {
      const Value v = value(o);
      const auto n = static_cast<size_t>(c_.desc.outputs[0].elements());
      if (const auto* number = std::get_if<double>(&v)) {
        out.push_back(Values(n, static_cast<double>(static_cast<float>(*number))));
        continue;
      }
      const Values& tensor = std::get<Tensor>(v).values;
      out.emplace_back();
      for (size_t e = 0; e < n; ++e) out.back().push_back(tensor[e % tensor.size()]);
    }
    return out;
  }

 private:
  Value value(const Operand& o) const {
    switch (o.kind) {
      case Operand::Kind::input:
        return Tensor{c_.desc.inputs[o.index], c_.inputs[o.index]};
      case Operand::Kind::scalar:
        return c_.scalars[o.index];
      case Operand::Kind::result:
        return results_[o.index];
      default:
        return o.number;
    }
  }
  // "{p = 0.1, …}" of the next instruction, as the chain's text has it.
  std::string attributes() const {
    std::istringstream chain(c_.desc.string("expr"));
    std::string instruction;
    for (size_t i = 0; i <= results_.size(); ++i) std::getline(chain, instruction, ';');
    const size_t begin = instruction.find('{');
    return begin == std::string::npos ? "" : instruction.substr(begin);
  }
  Value apply(const Instruction& in) const {
    std::vector<Value> operands{value(in.a)};
    if (arity(in.op) == 2) operands.push_back(value(in.b));
    OpCase one;
    one.name = c_.name;
    one.rng = c_.rng;
    one.desc.op = "fused";
    std::string args;
    const TensorDesc* widest = nullptr;
    for (const Value& v : operands) {
      args += args.empty() ? "" : ", ";
      if (const auto* number = std::get_if<double>(&v)) {
        args += text("s", one.scalars.size());
        one.scalars.push_back(*number);
        continue;
      }
      const auto& t = std::get<Tensor>(v);
      args += text("i", one.inputs.size());
      one.desc.inputs.push_back(t.desc);
      one.inputs.push_back(t.values);
      if (widest == nullptr || t.desc.rank() > widest->rank()) widest = &t.desc;
    }
    if (widest == nullptr) {
      return evaluate(in.op, std::get<double>(operands[0]), std::get<double>(operands.back()), 1);
    }
    for (const auto& row : op_rows()) {
      const auto* name = find_element_op(row.op);
      if (name == nullptr || name->op != in.op) continue;
      one.desc.attrs["expr"] = text("t0 = ", row.op, "(", args, ") ", attributes(), "; out t0");
    }
    one.desc.scalar_count = one.scalars.size();
    one.desc.outputs = {*widest};
    one.before.emplace_back();
    return Tensor{*widest, run_(one)};
  }

  const OpCase& c_;
  std::function<Values(const OpCase&)> run_;
  std::vector<Value> results_;
};

TEST_P(FusedTest, AChainHasTheBitsOfItsInstructions) {
  for (const OpCase& c : op_cases()) {
    if (c.desc.op != "fused") continue;
    OneByOne one_by_one(c, [&](const OpCase& one) { return run_case(one)[0]; });
    EXPECT_TRUE(same_bits(run_case(c), one_by_one.outputs())) << c.name;
  }
}

// Losses to f32's rounding: the one pass and the two cut the logits in other blocks.
TEST_P(FusedTest, TheTrainingLossIsTheLossAndItsGradient) {
  for (const OpCase& train : op_cases()) {
    if (train.desc.op != "linear_cross_entropy_train" || train.desc.accumulate_mask != 0) continue;
    SCOPED_TRACE(train.name);
    const auto got = run_case(train);
    const auto with = [&](std::string_view op, std::vector<size_t> inputs,
                          std::vector<size_t> outputs) {
      OpCase c = train;
      c.desc.op = op;
      c.desc.inputs.clear();
      c.desc.outputs.clear();
      c.inputs.clear();
      c.before.assign(outputs.size(), {});
      for (const size_t i : inputs) {
        c.desc.inputs.push_back(train.desc.inputs[i]);
        c.inputs.push_back(train.inputs[i]);
      }
      for (const size_t o : outputs) c.desc.outputs.push_back(train.desc.outputs[o]);
      return c;
    };
    auto want = run_case(with("linear_cross_entropy", {0, 1, 2}, {0, 1}));
    OpCase grad = with("linear_cross_entropy_grad", {0, 1, 2, 3, 3, 4}, {2, 3});
    grad.inputs[3] = want[0];
    for (auto& g : run_case(grad)) want.push_back(std::move(g));
    for (size_t o = 0; o < want.size(); ++o) {
      for (size_t e = 0; e < want[o].size(); ++e) {
        ASSERT_NEAR(got[o][e], want[o][e], 2e-5 * (1 + std::fabs(want[o][e])))
            << "output " << o << " element " << e;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, FusedTest, ::testing::Values("reference", "vectorised"),
                         [](const auto& name) { return std::string(name.param); });

// Lengths one below, at and one above the borders of tiles, for the result and the gradient.
TEST(Attention, TilesGiveThePlainSoftmax) {
  const PoolHost pool(2);
  for (const auto& lengths : std::vector<std::pair<int64_t, int64_t>>{{63, 63},
                                                                      {64, 64},
                                                                      {65, 65},
                                                                      {127, 127},
                                                                      {128, 128},
                                                                      {129, 129},
                                                                      {255, 255},
                                                                      {256, 256},
                                                                      {257, 257},
                                                                      {1, 257},
                                                                      {257, 1},
                                                                      {65, 129},
                                                                      {129, 64}}) {
    const int64_t s = lengths.first, t = lengths.second;
    for (const int64_t causal : {0, 1}) {
      const auto q = f32({1, s, 2, 8}), k = f32({1, t, 1, 8}), lse = f32({1, 2, s});
      const auto attributes = [&](std::string_view op) {
        CaseWriter w(op, text(s, "x", t));
        w.attr("causal", causal).attr("scale", 0.5).attr("dropout", 0.1);
        w.attr("site", std::string("h.0"));
        return w;
      };
      for (const OpCase& c : {attributes("attention")
                                  .input(q, -2, 2)
                                  .input(k, -2, 2)
                                  .input(k)
                                  .output(q)
                                  .output(lse)
                                  .formula({}),
                              attributes("attention_grad")
                                  .input(q)
                                  .input(q)
                                  .input(k)
                                  .input(k)
                                  .input(q)
                                  .input(lse, 3, 5)
                                  .output(q)
                                  .output(k)
                                  .output(k)
                                  .formula({})}) {
        SCOPED_TRACE(text(c.name, causal != 0 ? ", causal" : ""));
        const auto want = run(c, "reference", pool.host()), got = run(c, "vectorised", pool.host());
        for (size_t o = 0; o < want.size(); ++o) {
          for (size_t e = 0; e < want[o].size(); ++e) {
            ASSERT_NEAR(got[o][e], want[o][e], 1e-5 * (1 + std::fabs(want[o][e])))
                << "output " << o << " element " << e;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace megatron::cpu::testing
