// Every rule of the verifier, provoked: a sound program is damaged in one place.
#include "graph/verifier.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "graph/op.hpp"
#include "graph/text.hpp"

namespace megatron::graph {
namespace {

constexpr std::string_view kSound = R"(
program p
  parameter %w : f32[n=2, k=3] = zeros
  state %m : f32[n=2, k=3]
  state %g : f32[n=2, k=3]
  input %x : f32[m=4{0+4 of 8}, k=3]
  input %dy : f32[m=4, n=2]
  scalar %accumulate
  %y = linear(%x, %w) {contract = 1} : f32[m=4, n=2] @ layers.0 block 0
  %dw = linear_wgrad(%dy, %x, %accumulate) {contract = 1} : f32[n=2, k=3] add into %g backward
  %m2 = add(%m, %dw) : f32[n=2, k=3] into %m update
  %w2 = sub(%w, %m2) : f32[n=2, k=3] into %w update
  %sum = sum(%y) {keep = 0} : f32[]
  output y = %y
  loss lm = %sum / %sum weight 1
end
)";

struct Row {
  std::string name;
  std::function<void(Program&)> damage;
  std::string message;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

ValueId value(const Program& p, std::string_view name) {
  for (ValueId v = 0; v < p.values.size(); ++v) {
    if (p.values[v].name == name) return v;
  }
  ADD_FAILURE() << name;
  return 0;
}

class Verifier : public testing::TestWithParam<Row> {};

TEST_P(Verifier, NamesTheFault) {
  auto program = parse(kSound);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_TRUE(verify(*program).ok());
  GetParam().damage(*program);
  EXPECT_EQ(verify(*program).message(), GetParam().message);
}

const std::vector<Row> kRows = {
    {"a name twice",
     [](Program& p) { p.values[value(p, "y")].name = p.values[value(p, "w")].name; },
     "program 'p': the name %w is used twice"},
    {"too few maps", [](Program& p) { p.values[value(p, "x")].maps.pop_back(); },
     "program 'p': %x has 1 index maps for rank 2"},
    {"a map of another size",
     [](Program& p) { p.values[value(p, "x")].maps[0] = IndexMap::identity(8); },
     "program 'p': dimension 0 of %x has size 4 and a map of 8"},
    {"a result without producer", [](Program& p) { p.values[value(p, "y")].producer = kNone; },
     "program 'p': nothing makes %y"},
    {"another producer", [](Program& p) { p.values[value(p, "y")].producer = 1; },
     "program 'p': node 'linear' making %y in layers.0 is not the producer of %y"},
    {"an operand that does not exist", [](Program& p) { p.nodes[0].inputs[0] = 99; },
     "program 'p': node 'linear' making %y in layers.0 reads value 99, which does not exist"},
    {"a result that does not exist", [](Program& p) { p.nodes[0].outputs[0] = 99; },
     "program 'p': node 'linear' in layers.0 makes value 99, which does not exist"},
    {"an operand that is made later", [](Program& p) { p.nodes[0].inputs[1] = value(p, "dw"); },
     "program 'p': node 'linear' making %y in layers.0 reads %dw before it is made"},
    {"operands that do not fit", [](Program& p) { p.nodes[0].inputs[1] = value(p, "dy"); },
     "program 'p': node 'linear' making %y in layers.0 does not type-check: op 'linear' cannot "
     "take (f32[m=4, k=3], f32[m=4, n=2])\n"
     "  operand 1 has n=2 where an earlier one has k=3\n"
     "  fix: docs/ops.md has the shapes and types of its operands"},
    {"an unknown attribute", [](Program& p) { p.nodes[0].attrs["bias"] = int64_t{1}; },
     "program 'p': node 'linear' making %y in layers.0 does not type-check: op 'linear' has no "
     "attribute 'bias'\n  it has contract\n  fix: remove it, or correct its name"},
    {"a result too many", [](Program& p) { p.nodes[0].outputs.push_back(p.nodes[0].outputs[0]); },
     "program 'p': node 'linear' making %y in layers.0 has 2 results where the op has 1"},
    {"another type", [](Program& p) { p.values[value(p, "y")].type.dims[1].size = 5; },
     "program 'p': node 'linear' making %y in layers.0 makes %y of type f32[m=4, n=5] where the op "
     "infers f32[m=4, n=2]"},
    {"another axis name", [](Program& p) { p.values[value(p, "y")].type.dims[1].axis.clear(); },
     "program 'p': node 'linear' making %y in layers.0 makes %y of type f32[m=4, 2] where the "
     "op infers f32[m=4, n=2]"},
    {"a flag that is no scalar", [](Program& p) { p.nodes[1].inputs.pop_back(); },
     "program 'p': node 'linear_wgrad' making %dw accumulates but its last operand is not a "
     "scalar"},
    {"an op that cannot accumulate",
     [](Program& p) {
       p.nodes[2].accumulate_mask = 1;
       p.nodes[2].inputs.push_back(value(p, "accumulate"));
     },
     "program 'p': node 'add' making %m2 cannot accumulate"},
    {"accumulating into nothing", [](Program& p) { p.values[value(p, "dw")].into = kNone; },
     "program 'p': node 'linear_wgrad' making %dw accumulates into nothing"},
    {"writing into an input", [](Program& p) { p.values[value(p, "m2")].into = value(p, "x"); },
     "program 'p': node 'add' making %m2 writes into %x, which is neither a parameter nor a "
     "state"},
    {"writing into a value that does not exist",
     [](Program& p) { p.values[value(p, "m2")].into = 99; },
     "program 'p': node 'add' making %m2 writes into value 99, which does not exist"},
    {"writing into a smaller home",
     [](Program& p) { p.values[value(p, "g")].type.dims[0].size = 1; },
     "program 'p': node 'linear_wgrad' making %dw writes f32[n=2, k=3] into %g of type f32[n=1, "
     "k=3]"},
    {"reading a parameter after its update",
     [](Program& p) { p.nodes[4].inputs[0] = value(p, "w"); },
     "program 'p': node 'sum' making %sum reads %w after %w2 was written in its place"},
    {"reading an accumulator beside its gradient",
     [](Program& p) { p.nodes[2].inputs[1] = value(p, "g"); },
     "program 'p': node 'add' making %m2 reads %g after %dw was written in its place"},
    {"reading a result that was written over",
     [](Program& p) {
       p.values[value(p, "w2")].into = value(p, "m");
       p.nodes[4].inputs[0] = value(p, "m2");
     },
     "program 'p': node 'sum' making %sum reads %m2 after %w2 was written in its place"},
    {"an output that was written over", [](Program& p) { p.outputs[0].value = value(p, "w"); },
     "program 'p': output 'y' is %w, and %w2 was written in its place"},
    {"an output that nothing makes", [](Program& p) { p.outputs[0].value = 99; },
     "program 'p': output 'y' is not made"},
    {"a loss that nothing makes", [](Program& p) { p.losses[0].count = 99; },
     "program 'p': loss 'lm' is not made"},
    {"a loss with dimensions", [](Program& p) { p.losses[0].sum = value(p, "y"); },
     "loss 'lm' of program 'p' has the type f32[m=4, n=2]\n"
     "  a loss term is a sum and a count f32[] on the device\n"
     "  fix: reduce it with ops::linear_cross_entropy or the op 'sum'"},
    {"a loss that the host knows", [](Program& p) { p.losses[0].sum = value(p, "accumulate"); },
     "loss 'lm' of program 'p' has the type f64[]\n"
     "  a loss term is a sum and a count f32[] on the device\n"
     "  fix: reduce it with ops::linear_cross_entropy or the op 'sum'"},
};

INSTANTIATE_TEST_SUITE_P(Rules, Verifier, testing::ValuesIn(kRows), [](const auto& test) {
  std::string name;
  for (const char c : test.param.name) name += c == ' ' ? '_' : c;
  return name;
});

// One node may read the old content and write the new one: the fused in-place update.
TEST(Verifier, OneNodeMayReadAndWrite) {
  const auto program = parse(
      "program p\n"
      "parameter %w : f32[4] = zeros\n"
      "state %g : f32[4]\n"
      "scalar %lr\n"
      "%w2 = fused(%w, %g, %lr) {expr = \"t0 = mul(i1, s0); t1 = sub(i0, t0); out t1\", outputs = "
      "1} : f32[4] into %w update\n"
      "%n = sum_squares(%w2) : f32[] update\n"
      "output norm = %n\n"
      "end\n");
  EXPECT_TRUE(program.ok()) << program.status().message();
}

}  // namespace
}  // namespace megatron::graph
