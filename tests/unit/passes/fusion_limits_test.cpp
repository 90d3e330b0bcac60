// The size limits of fused nodes, and fusion of random programs: nothing may change but the number
// of nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "graph/builder.hpp"
#include "graph/op.hpp"
#include "graph/text.hpp"
#include "graph/verifier.hpp"
#include "passes/cleanup.hpp"
#include "passes/fuse_elementwise.hpp"

namespace megatron::passes {
namespace {

using graph::Program;
using graph::ProgramBuilder;
using graph::ValueId;

int64_t instructions(const graph::Node& node) {
  const std::string expr = graph::string_attr(node.attrs, "expr");
  return std::count(expr.begin(), expr.end(), ';');
}

TEST(FusionLimits, AtMost32Instructions) {
  ProgramBuilder b("p");
  ValueId v = *b.input("x", {DType::f32, {{4, "n"}}});
  for (int i = 0; i < 40; ++i) v = b.op1("neg", {v});
  ASSERT_TRUE(b.output("y", v).ok());
  Program program = *std::move(b).finish();
  ASSERT_TRUE(fuse_elementwise(program).ok());
  ASSERT_TRUE(graph::verify(program).ok());
  ASSERT_EQ(program.nodes.size(), 2U) << graph::print(program);
  EXPECT_EQ(instructions(program.nodes[0]), 32);
  EXPECT_EQ(instructions(program.nodes[1]), 8);
}

TEST(FusionLimits, AtMost16Tensors) {
  ProgramBuilder b("p");
  const graph::Type type{DType::f32, {{4, "n"}}};
  ValueId sum = *b.input("x0", type);
  for (int i = 1; i < 20; ++i) sum = b.op1("add", {sum, *b.input(text("x", i), type)});
  ASSERT_TRUE(b.output("y", sum).ok());
  Program program = *std::move(b).finish();
  ASSERT_TRUE(fuse_elementwise(program).ok());
  ASSERT_TRUE(graph::verify(program).ok());
  ASSERT_EQ(program.nodes.size(), 2U) << graph::print(program);
  EXPECT_EQ(program.nodes[0].inputs.size(), 16U);
  EXPECT_EQ(program.nodes[1].inputs.size(), 5U);  // four more and the sum so far
}

// A random program of element-wise ops, sums and writes into states that obeys the rules of memory.
Program random_program(std::mt19937& rng) {
  ProgramBuilder b("p");
  const graph::Type type{DType::f32, {{4, "n"}}};
  const auto pick = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  std::vector<ValueId> full;  // readable tensors [4]
  std::vector<ValueId> rank0 = {b.scalar("s")};
  std::vector<ValueId> states;
  for (int i = 0; i < 2; ++i) full.push_back(*b.input(text("x", i), type));
  for (int i = 0; i < 3; ++i) {
    states.push_back(*b.state(text("m", i), type));
    full.push_back(states.back());
  }
  const size_t count = 5 + pick(20);
  for (size_t n = 0; n < count; ++n) {
    const ValueId a = full[pick(full.size())];
    ValueId made = 0;
    switch (pick(5)) {
      case 0:
        rank0.push_back(b.op1("sum", {a}));
        continue;
      case 1:
        made = b.op1("neg", {a});
        break;
      case 2:
        made = b.op1("mul", {a, rank0[pick(rank0.size())]});
        break;
      default:
        made = b.op1("add", {a, full[pick(full.size())]});
    }
    full.push_back(made);
    if (!states.empty() && pick(4) == 0) {  // from here on the old content is gone
      const size_t home = pick(states.size());
      b.program().values[made].into = states[home];
      std::erase(full, states[home]);
      states.erase(states.begin() + static_cast<std::ptrdiff_t>(home));
    }
  }
  EXPECT_TRUE(b.output("y", full.back()).ok());
  for (size_t i = 1; i < rank0.size(); ++i) EXPECT_TRUE(b.output(text("r", i), rank0[i]).ok());
  auto program = std::move(b).finish();
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *std::move(program);
}

// The element-wise instructions of a program, counted by op, inside and outside of fused nodes.
std::map<std::string, int> census(const Program& program) {
  std::map<std::string, int> out;
  for (const auto& node : program.nodes) {
    if (node.op->name != "fused") {
      ++out[std::string(node.op->name)];
      continue;
    }
    const std::string expr = graph::string_attr(node.attrs, "expr");
    for (const std::string name : {"neg", "mul", "add"}) {
      for (size_t at = 0; (at = expr.find("= " + name + "(", at)) != std::string::npos; ++at)
        ++out[name];
    }
  }
  return out;
}

TEST(FusionProperty, RandomProgramsStaySound) {
  const uint32_t seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 rng(seed);
  size_t fused = 0;
  for (int round = 0; round < 500; ++round) {
    Program before = random_program(rng);
    ASSERT_TRUE(eliminate_dead_nodes(before).ok());
    Program after = before;
    ASSERT_TRUE(fuse_elementwise(after).ok());
    const Status status = graph::verify(after);
    ASSERT_TRUE(status.ok()) << "seed " << seed << ", round " << round << "\n"
                             << status.message() << "\n"
                             << graph::print(before) << graph::print(after);
    ASSERT_EQ(census(after), census(before)) << graph::print(before) << graph::print(after);
    fused += before.nodes.size() - after.nodes.size();
  }
  EXPECT_GT(fused, 500U) << "nothing was fused";
}

}  // namespace
}  // namespace megatron::passes
