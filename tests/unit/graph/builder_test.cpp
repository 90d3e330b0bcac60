// The builder as plugins see it: the ABI's table, and the facade over it. Everything that a plugin
// can do wrong is a status with text; nothing throws across the boundary.
#include "graph/builder.hpp"

#include <gtest/gtest.h>

#include "graph/text.hpp"
#include "megatron/graph.hpp"

namespace megatron::graph {
namespace {

std::string message(mgt_status* status) { return std::string(from_abi(status).message()); }

class AbiBuilder : public testing::Test {
 protected:
  mgt_parameter_desc parameter_desc(std::string_view name) {
    mgt_parameter_desc desc;
    MGT_INIT(&desc);
    desc.name = to_abi(name);
    desc.dtype = MGT_DTYPE_F32;
    desc.init = MGT_INIT_ZEROS;
    desc.dims = dims_;
    desc.rank = 2;
    return desc;
  }
  mgt_input_desc input_desc(std::string_view name) {
    mgt_input_desc desc;
    MGT_INIT(&desc);
    desc.name = to_abi(name);
    desc.dtype = MGT_DTYPE_F32;
    desc.dims = dims_;
    desc.rank = 2;
    return desc;
  }
  mgt_value input(std::string_view name) {
    const auto desc = input_desc(name);
    mgt_value v = 0;
    EXPECT_EQ(message(table_.input(table_.context, &desc, &v)), "");
    return v;
  }
  std::string op(std::string_view name, std::vector<mgt_value> in, std::vector<mgt_attr> attrs,
                 size_t outputs) {
    std::vector<mgt_value> out(outputs);
    return message(table_.op(table_.context, to_abi(name), in.data(), in.size(), attrs.data(),
                             attrs.size(), out.data(), out.size()));
  }

  const mgt_dim dims_[9] = {{to_abi("n"), 2}, {to_abi("k"), 3}, {}, {}, {}, {}, {}, {}, {}};
  ProgramBuilder builder_{"p"};
  mgt_builder table_ = builder_.table();
};

TEST_F(AbiBuilder, RefusesTypesItDoesNotKnow) {
  auto desc = parameter_desc("w");
  mgt_value v = 7;
  desc.dtype = 999;
  EXPECT_EQ(message(table_.parameter(table_.context, &desc, &v)), "unknown dtype number 999");
  desc = parameter_desc("w");
  desc.rank = 9;
  EXPECT_EQ(message(table_.parameter(table_.context, &desc, &v)), "rank 9 exceeds 8");
  desc = parameter_desc("w");
  desc.init = 42;
  EXPECT_EQ(message(table_.parameter(table_.context, &desc, &v)), "unknown initializer number 42");
  desc = parameter_desc("");
  EXPECT_EQ(message(table_.parameter(table_.context, &desc, &v)), "every parameter needs a name");
  EXPECT_EQ(v, 7U) << "written in spite of an error";

  auto in = input_desc("x");
  in.dtype = 0;
  EXPECT_EQ(message(table_.input(table_.context, &in, &v)), "unknown dtype number 0");
  const mgt_dim empty[] = {{to_abi("batch"), 0}};
  in = input_desc("x");
  in.dims = empty;
  in.rank = 1;
  EXPECT_EQ(message(table_.input(table_.context, &in, &v)),
            "input 'x' has the size 0 on axis 'batch'\n"
            "  its type is f32[batch=0]\n"
            "  fix: sizes must be positive");
}

TEST_F(AbiBuilder, NamesAreDeclaredOnce) {
  input("x");
  const auto desc = parameter_desc("x");
  mgt_value v = 0;
  EXPECT_EQ(message(table_.parameter(table_.context, &desc, &v)),
            "parameter 'x' is declared twice in program 'p'");
  // A scalar is the same one when asked again.
  mgt_value a = 0;
  mgt_value b = 0;
  EXPECT_EQ(message(table_.scalar(table_.context, to_abi("lr"), &a)), "");
  EXPECT_EQ(message(table_.scalar(table_.context, to_abi("lr"), &b)), "");
  EXPECT_EQ(a, b);
}

TEST_F(AbiBuilder, RefusesOpsItCannotWrite) {
  const mgt_value x = input("x");
  EXPECT_EQ(op("softplus", {x}, {}, 1),
            "there is no op 'softplus'\n  fix: docs/ops.md lists the ops");
  EXPECT_EQ(op("neg", {77}, {}, 1),
            "op 'neg' refers to value 77, which this program does not have");
  EXPECT_EQ(op("neg", {x}, {}, 2), "op 'neg' has 1 results, the caller takes 2");
  mgt_attr attr{};
  attr.name = to_abi("p");
  attr.type = 55;
  EXPECT_EQ(op("dropout", {x}, {attr}, 1), "attribute 'p' has the unknown type 55");
  EXPECT_EQ(message(table_.push_scope(table_.context, to_abi("layers.3"))), "");
  EXPECT_EQ(message(table_.push_scope(table_.context, to_abi("mlp"))), "");
  EXPECT_EQ(op("neg", {x, x}, {}, 1),
            "op 'neg' cannot take (f32[n=2, k=3], f32[n=2, k=3])\n"
            "  it takes 1 operand, not 2\n"
            "  fix: docs/ops.md has the shapes and types of its operands\n"
            "  while writing 'layers.3.mlp' of program 'p'");
}

TEST_F(AbiBuilder, InternalOpsAreNotForPlugins) {
  const mgt_value x = input("x");
  EXPECT_TRUE(builder_.op("copy", {x}).ok()) << "the host itself writes it";
  EXPECT_EQ(op("copy", {x}, {}, 1), "there is no op 'copy'\n  fix: docs/ops.md lists the ops");
}

TEST_F(AbiBuilder, OutputsAndLossesNeedValues) {
  const mgt_value x = input("x");
  EXPECT_EQ(message(table_.output(table_.context, to_abi("y"), 5)),
            "output 'y' refers to value 5, which this program does not have");
  EXPECT_EQ(message(table_.loss(table_.context, to_abi("lm"), x, 5, 1.0)),
            "loss 'lm' refers to value 5, which this program does not have");
  EXPECT_EQ(message(table_.loss(table_.context, to_abi("lm"), x, x, 1.0)), "");
  EXPECT_EQ(message(table_.loss(table_.context, to_abi("lm"), x, x, 1.0)),
            "loss 'lm' is declared twice in program 'p'");
  EXPECT_EQ(message(table_.output(table_.context, to_abi(""), x)), "every output needs a name");
  const auto program = std::move(builder_).finish();
  ASSERT_FALSE(program.ok());
  EXPECT_TRUE(program.status().message().starts_with("loss 'lm' of program 'p' has the type"))
      << program.status().message();
}

TEST_F(AbiBuilder, DescribesValues) {
  const mgt_value x = input("x");
  mgt_value_desc desc;
  MGT_INIT(&desc);
  EXPECT_EQ(message(table_.describe(table_.context, x, &desc)), "");
  EXPECT_EQ(desc.dtype, static_cast<mgt_dtype>(MGT_DTYPE_F32));
  ASSERT_EQ(desc.rank, 2U);
  EXPECT_EQ(from_abi(desc.dims[1].axis), "k");
  EXPECT_EQ(desc.dims[1].size, 3);
  EXPECT_EQ(message(table_.describe(table_.context, 9, &desc)), "there is no value 9");
}

struct Step {
  char what;  // ( push, ) pop, [ begin, ] end
  int64_t index = 0;
};
struct Nesting {
  std::vector<Step> steps;
  std::string message;  // of the first step that fails, or of finish
};

class Scopes : public testing::TestWithParam<Nesting> {};

TEST_P(Scopes, AreBalanced) {
  ProgramBuilder builder("p");
  const mgt_builder t = builder.table();
  std::string failed;
  for (const Step& s : GetParam().steps) {
    mgt_status* status = s.what == '('   ? t.push_scope(t.context, to_abi("scope"))
                         : s.what == ')' ? t.pop_scope(t.context)
                         : s.what == '[' ? t.begin_block(t.context, s.index)
                                         : t.end_block(t.context);
    failed = message(status);
    if (!failed.empty()) break;
  }
  if (failed.empty()) failed = std::move(builder).finish().status().message();
  EXPECT_EQ(failed, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Nesting, Scopes,
    testing::Values(
        Nesting{{{'('}, {'['}, {']'}, {'[', 1}, {']'}, {')'}}, ""},
        Nesting{{{')'}}, "pop_scope without push_scope"},
        Nesting{{{'('}, {'('}, {')'}}, "scope 'scope' is not closed"},
        Nesting{{{'['}}, "block 0 is not closed"},
        Nesting{{{']'}}, "end_block without begin_block"},
        Nesting{{{'['}, {'[', 1}}, "begin_block inside a block\n  blocks do not nest"},
        Nesting{{{'['}, {']'}, {'[', 2}},
                "block 2 begins after block 0\n  blocks are numbered 0, 1, 2, … in order"},
        Nesting{{{'[', 1}},
                "block 1 begins after block -1\n  blocks are numbered 0, 1, 2, … in order"}));

// The facade turns what the table reports into an exception of the plugin's side, which a
// trampoline turns back into the same text.
TEST(Facade, ErrorsCrossTheBoundaryAsText) {
  ProgramBuilder builder("p");
  const mgt_builder table = builder.table();
  mgt_status* status = guarded([&] {
    const Builder b(&table);
    const auto x = b.input("x", DType::f32, {{"m", 2}, {"k", 3}});
    const auto w = b.parameter("w", {{"n", 4}, {"k", 5}}, Init::zeros());
    const auto scope = b.scope("layers.0");
    b.output("y", ops::linear(x, w));
  });
  EXPECT_EQ(message(status),
            "op 'linear' cannot take (f32[m=2, k=3], f32[n=4, k=5])\n"
            "  operand 1 has k=5 where an earlier one has k=3\n"
            "  fix: docs/ops.md has the shapes and types of its operands\n"
            "  while writing 'layers.0' of program 'p'");
}

TEST(Facade, WritesTheProgramThatPrints) {
  ProgramBuilder builder("loss");
  const mgt_builder table = builder.table();
  const Builder b(&table);
  const auto ids = b.input("tokens", DType::i32, {{"batch", 2}, {"seq", 3}});
  const auto mask = b.input("mask", DType::f32, {{"batch", 2}, {"seq", 3}});
  const auto word = b.parameter("word", {{"vocab", 5}, {"hidden", 4}}, Init::normal(0.02));
  const auto fixed = b.parameter("scale", {{"hidden", 4}}, Init::ones(), MGT_PARAMETER_FROZEN);
  megatron::Value x = ops::embedding(ids, word);
  for (int64_t layer = 0; layer < 2; ++layer) {
    const auto block = b.block(layer);
    const auto scope = b.scope(text("layers.", layer));
    x = x * fixed * 0.5;
  }
  const auto loss = ops::linear_cross_entropy(x, word, ids, mask);
  b.loss("lm", loss.sum, loss.count, 0.5);
  const auto program = std::move(builder).finish();
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(print(*program),
            "program loss\n"
            "  parameter %word : f32[vocab=5, hidden=4] = normal(0, 0.02)\n"
            "  parameter %scale : f32[hidden=4] = ones frozen\n"
            "  input %tokens : i32[batch=2, seq=3]\n"
            "  input %mask : f32[batch=2, seq=3]\n"
            "  constant %6 = 0.5\n"
            "  constant %9 = 0.5\n"
            "  %4 = embedding(%tokens, %word) : f32[batch=2, seq=3, hidden=4]\n"
            "  %5 = mul(%4, %scale) : f32[batch=2, seq=3, hidden=4] @ layers.0 block 0\n"
            "  %7 = mul(%5, %6) : f32[batch=2, seq=3, hidden=4] @ layers.0 block 0\n"
            "  %8 = mul(%7, %scale) : f32[batch=2, seq=3, hidden=4] @ layers.1 block 1\n"
            "  %10 = mul(%8, %9) : f32[batch=2, seq=3, hidden=4] @ layers.1 block 1\n"
            "  %11, %12 = linear_cross_entropy(%10, %word, %tokens) : f32[batch=2, seq=3], "
            "f32[batch=2, seq=3] after 1\n"
            "  %13 = sub(%11, %12) : f32[batch=2, seq=3] after 1\n"
            "  %14 = mul(%13, %mask) : f32[batch=2, seq=3] after 1\n"
            "  %15 = sum(%14) {keep = 0} : f32[] after 1\n"
            "  %16 = sum(%mask) {keep = 0} : f32[] after 1\n"
            "  loss lm = %15 / %16 weight 0.5\n"
            "end\n");
}

}  // namespace
}  // namespace megatron::graph
