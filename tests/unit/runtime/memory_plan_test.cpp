// The memory plan: what is alive together lies apart, results take over only what is read for the
// last time, and little is wasted.
#include "runtime/memory_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "graph/text.hpp"

namespace megatron::runtime {
namespace {

using graph::Program;
using graph::ProgramBuilder;
using graph::ValueId;

// A random program over [m], [m, k] and rank 0: element-wise ops with and without broadcast, norms
// with three results, sums, writes into states, outputs.
Program random_program(std::mt19937& rng) {
  ProgramBuilder b("p");
  const auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  const auto size = [&] { return static_cast<int64_t>(1 + pick(300)); };
  const graph::Dim m{size(), "m"};
  const graph::Dim k{size(), "k"};
  const ValueId scalar = b.scalar("s");
  const ValueId gain = *b.parameter("gain", {DType::f32, {k}}, {});
  const ValueId state = *b.state("state", {DType::f32, {m, k}});
  std::vector<ValueId> full = {*b.input("x", {DType::f32, {m, k}})};
  std::vector<ValueId> rows = {*b.input("y", {DType::f32, {k}})};
  bool written = false;
  const size_t count = 3 + pick(25);
  for (size_t n = 0; n < count; ++n) {
    const ValueId a = full[pick(full.size())];
    switch (pick(7)) {
      case 0: {
        const auto out =
            *b.op("layer_norm", {a, gain, rows[pick(rows.size())]}, {{"epsilon", 1.0}});
        full.push_back(out[0]);
        break;
      }
      case 1:
        rows.push_back(b.op1("sum", {a}, {{"keep", int64_t{1}}}));
        break;
      case 2:
        full.push_back(b.op1("mul", {a, scalar}));
        break;
      case 3:
        full.push_back(b.op1("add", {rows[pick(rows.size())], a}));
        break;
      case 4:
        rows.push_back(b.op1("neg", {rows[pick(rows.size())]}));
        break;
      default:
        full.push_back(b.op1("add", {a, full[pick(full.size())]}));
        if (!written && pick(5) == 0) {
          b.program().values[full.back()].into = state;
          written = true;
        }
    }
    if (pick(6) == 0) {
      EXPECT_TRUE(b.output(text("o", n), full.back()).ok());
    }
  }
  const ValueId sum = b.op1("sum", {full.back()});
  EXPECT_TRUE(b.loss("lm", sum, sum, 1).ok());
  return *std::move(b).finish();
}

// Lifetimes by the definition, apart from the planner's.
struct Life {
  int64_t first = 0;
  int64_t last = 0;
};

std::vector<Life> lifetimes(const Program& p) {
  const auto nodes = static_cast<int64_t>(p.nodes.size());
  std::vector<Life> out(p.values.size());
  for (ValueId v = 0; v < p.values.size(); ++v) {
    const bool made = p.values[v].kind == graph::ValueKind::result;
    out[v].first = out[v].last = made ? static_cast<int64_t>(p.values[v].producer) : -1;
    for (int64_t n = 0; n < nodes; ++n) {
      const auto& in = p.nodes[static_cast<size_t>(n)].inputs;
      if (std::find(in.begin(), in.end(), v) != in.end()) out[v].last = n;
    }
    for (const auto& o : p.outputs)
      if (o.value == v) out[v].last = nodes;
    for (const auto& l : p.losses)
      if (l.sum == v || l.count == v) out[v].last = nodes;
  }
  return out;
}

bool apart(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) {
  return a + a_bytes <= b || b + b_bytes <= a;
}

// `b` is made by an element-wise node that reads `a`, of the same shape, for the last time.
bool takes_over(const Program& p, const std::vector<Life>& life, ValueId a, ValueId b) {
  if (p.values[b].kind != graph::ValueKind::result || life[a].last != life[b].first) return false;
  const auto& node = p.nodes[p.values[b].producer];
  return (node.op->elementwise() || node.op->name == "fused") && p.type(a).dims == p.type(b).dims &&
         std::find(node.inputs.begin(), node.inputs.end(), a) != node.inputs.end();
}

void check(const Program& p, const std::vector<int64_t>& workspace) {
  const MemoryPlan plan = plan_memory(p, workspace);
  const auto life = lifetimes(p);
  ASSERT_EQ(plan.offsets.size(), p.values.size());
  for (ValueId a = 0; a < p.values.size(); ++a) {
    const auto& value = p.values[a];
    const bool planned =
        (value.kind == graph::ValueKind::input || value.kind == graph::ValueKind::result) &&
        value.into == graph::kNone && !value.type.is_scalar();
    ASSERT_EQ(plan.offsets[a] >= 0, planned) << "%" << value.name;
    if (!planned) continue;
    ASSERT_EQ(plan.offsets[a] % kAlignment, 0);
    ASSERT_LE(plan.offsets[a] + value.type.bytes(), plan.scratch_bytes);
    for (ValueId b = 0; b < a; ++b) {
      if (plan.offsets[b] < 0) continue;
      if (life[a].last < life[b].first || life[b].last < life[a].first) continue;
      if (plan.offsets[a] == plan.offsets[b] &&
          (takes_over(p, life, a, b) || takes_over(p, life, b, a)))
        continue;
      ASSERT_TRUE(apart(plan.offsets[a], value.type.bytes(), plan.offsets[b], p.type(b).bytes()))
          << "%" << value.name << " and %" << p.values[b].name;
    }
  }
  for (size_t n = 0; n < p.nodes.size(); ++n) {
    ASSERT_EQ(plan.workspace_offsets[n] >= 0, workspace[n] > 0);
    if (workspace[n] == 0) continue;
    ASSERT_LE(plan.workspace_offsets[n] + workspace[n], plan.scratch_bytes);
    for (ValueId v = 0; v < p.values.size(); ++v) {
      const auto at = static_cast<int64_t>(n);
      if (plan.offsets[v] < 0 || life[v].last < at || life[v].first > at) continue;
      ASSERT_TRUE(
          apart(plan.workspace_offsets[n], workspace[n], plan.offsets[v], p.type(v).bytes()))
          << "workspace of node " << n << " and %" << p.values[v].name;
    }
  }
  ASSERT_GE(plan.scratch_bytes, plan.live_peak_bytes);
}

TEST(MemoryPlanProperty, WhatIsAliveTogetherLiesApart) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 rng(seed);
  double planned = 0;
  double peak = 0;
  for (int round = 0; round < 500; ++round) {
    const Program p = random_program(rng);
    std::vector<int64_t> workspace(p.nodes.size());
    for (auto& bytes : workspace) bytes = rng() % 4 == 0 ? static_cast<int64_t>(rng() % 5000) : 0;
    check(p, workspace);
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", round " << round << "\n"
                                    << graph::print(p);
    const MemoryPlan plan = plan_memory(p, workspace);
    planned += static_cast<double>(plan.scratch_bytes);
    peak += static_cast<double>(plan.live_peak_bytes);
  }
  std::printf("planned / live peak: %.4f\n", planned / peak);
  EXPECT_LE(planned / peak, 1.03);
}

struct Row {
  std::string name;
  std::string text;
  std::string value;
  std::string taken_from;  // empty: a place of its own
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class InPlace : public testing::TestWithParam<Row> {};

TEST_P(InPlace, OnlyWhatIsReadForTheLastTime) {
  const auto program = graph::parse(GetParam().text);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto plan = plan_memory(*program, std::vector<int64_t>(program->nodes.size()));
  const auto offset = [&](const std::string& name) {
    for (ValueId v = 0; v < program->values.size(); ++v)
      if (program->values[v].name == name) return plan.offsets[v];
    return int64_t{-2};
  };
  for (const auto& other : program->values) {
    if (other.name == GetParam().value || offset(other.name) < 0) continue;
    EXPECT_EQ(offset(GetParam().value) == offset(other.name), other.name == GetParam().taken_from)
        << other.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, InPlace,
    testing::Values(
        Row{"a_chain",
            "program p\ninput %x : f32[99]\n%a = neg(%x) : f32[99]\noutput y = %a\nend\n", "a",
            "x"},
        Row{"a_later_reader",
            "program p\ninput %x : f32[99]\n%a = neg(%x) : f32[99]\n%b = sum(%x) {keep = 0} : "
            "f32[]\n"
            "output y = %a\noutput z = %b\nend\n",
            "a", ""},
        Row{"an_output",
            "program p\ninput %x : f32[99]\n%a = neg(%x) : f32[99]\n%b = exp(%a) : "
            "f32[99]\noutput y = %a\noutput z = %b\nend\n",
            "b", ""},
        Row{"the_broadcast_operand",
            "program p\ninput %x : f32[99]\ninput %k : f32[2, 99]\n%a = add(%x, %k) : f32[2, 99]\n"
            "output y = %a\nend\n",
            "a", "k"},
        Row{"same_bytes_other_shape",
            "program p\ninput %x : f32[99]\ninput %k : f32[1, 99]\n%a = add(%x, %k) : f32[1, 99]\n"
            "output y = %a\noutput k = %k\nend\n",
            "a", ""},
        Row{"a_product",
            "program p\ninput %x : f32[9, 9]\n%a = linear(%x, %x) {contract = 1} : f32[9, 9]\n"
            "output y = %a\nend\n",
            "a", ""},
        Row{"a_fused_node",
            "program p\ninput %x : f32[99]\n%a = fused(%x) {expr = \"t0 = neg(i0); out t0\", "
            "outputs "
            "= 1} : f32[99]\noutput y = %a\nend\n",
            "a", "x"},
        // Both results are written by one node: they cannot share, read or not.
        Row{"an_unread_result",
            "program p\ninput %x : f32[99]\n%a, %b = fused(%x) {expr = \"t0 = neg(i0); t1 = "
            "exp(i0); out t0 t1\", outputs = 2} : f32[99], f32[99]\noutput y = %b\nend\n",
            "b", ""}),
    [](const auto& test) { return test.param.name; });

TEST(MemoryPlan, FirstFitFillsGaps) {
  // %a is dead when %b is made and %x when %t is made: each takes the other's place.
  const auto program = graph::parse(
      "program p\n"
      "input %x : f32[16]\n"
      "%a = linear(%x, %x) {contract = 0} : f32[16, 16]\n"
      "%s = sum(%a) {keep = 0} : f32[]\n"
      "%b = linear(%x, %x) {contract = 0} : f32[16, 16]\n"
      "%t = sum(%b) {keep = 0} : f32[]\n"
      "output s = %s\n"
      "output t = %t\n"
      "end\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto plan = plan_memory(*program, std::vector<int64_t>(4));
  EXPECT_EQ(plan.scratch_bytes, 1024 + 2 * kAlignment);
  EXPECT_EQ(plan.scratch_bytes, plan.live_peak_bytes);
}

TEST(MemoryPlan, AnEmptyProgramNeedsNothing) {
  const auto plan = plan_memory(*graph::parse("program p\nend\n"), {});
  EXPECT_EQ(plan.scratch_bytes, 0);
  EXPECT_EQ(plan.live_peak_bytes, 0);
}

}  // namespace
}  // namespace megatron::runtime
