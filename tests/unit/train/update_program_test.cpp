// The programs behind a step that no model writes: the reduction of gradients, and the optimizer's
// rule made into one program over every parameter. Rules that share, keep or reuse values stay
// right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.hpp"
#include "megatron/optimizer.hpp"
#include "train/model_programs.hpp"

namespace megatron::train {
namespace {

using testing::HasSubstr;

// `grad.w` of a parameter read once; two gradients of one that is read twice.
graph::Program differentiated() {
  return *graph::parse(
      "program train\n"
      "  parameter %w : f32[n=2] = zeros\n"
      "  parameter %tied : f32[n=3] = zeros\n"
      "  parameter %frozen : f32[n=3] = zeros frozen\n"
      "  state %grad.w : f32[n=2]\n"
      "  state %grad.tied@0 : f32[n=3]\n"
      "  state %grad.tied@1 : f32[n=3]\n"
      "end\n");
}

// One rule per test: what it makes of parameter, gradient and one state.
class Rule : public Optimizer {
 public:
  using Body = void (*)(const Builder&, Update&);
  explicit Rule(const Config&) {}
  std::vector<StateSpec> states(const ParameterInfo&) const override { return {{"m", 0.5}}; }
  void update(const Builder& b, Update& u) const override { body(b, u); }
  static Body body;
};
Rule::Body Rule::body = nullptr;

Result<UpdateProgram> update_of(Rule::Body body,
                                const mgt_optimizer* table = optimizer_table<Rule>()) {
  Rule::body = body;
  const auto train = graph::parse(
      "program train\n"
      "  parameter %w : f32[n=2] = zeros\n"
      "  state %grad.w : f32[n=2]\n"
      "end\n");
  Rule rule{Config(nullptr)};
  return build_update(*train, {table, &rule, "optimizer plugin 'rule'"}, {"w"});
}

std::string printed(Rule::Body body) {
  const auto update = update_of(body);
  return update.ok() ? graph::print(update->program) : std::string(update.status().message());
}

const std::string kHead =
    "program update\n"
    "  parameter %w : f32[n=2] = zeros\n"
    "  scalar %clip_coefficient\n"
    "  scalar %lr\n"
    "  scalar %weight_decay\n"
    "  scalar %step\n"
    "  state %m.w : f32[n=2]\n"
    "  state %reduced.w : f32[n=2]\n"
    "  %7 = mul(%reduced.w, %clip_coefficient) : f32[n=2] update\n";

TEST(Reduce, AddsTheUsesOfATiedParameterFirst) {
  const auto norm = build_reduce(differentiated(), {"w", "tied", "frozen"});
  ASSERT_TRUE(norm.ok()) << norm.status().message();
  EXPECT_EQ(graph::print(*norm),
            "program reduce\n"
            "  state %grad.w : f32[n=2]\n"
            "  state %reduced.w : f32[n=2]\n"
            "  state %grad.tied@0 : f32[n=3]\n"
            "  state %grad.tied@1 : f32[n=3]\n"
            "  state %reduced.tied : f32[n=3]\n"
            "  %2 = resolve(%grad.w) : f32[n=2] into %reduced.w update\n"
            "  %3 = sum_squares(%2) : f32[] update\n"
            "  %6 = add(%grad.tied@0, %grad.tied@1) : f32[n=3] update\n"
            "  %8 = resolve(%6) : f32[n=3] into %reduced.tied update\n"
            "  %9 = sum_squares(%8) : f32[] update\n"
            "  output norm.w = %3\n"
            "  output norm.tied = %9\n"
            "end\n");
}

TEST(Update, CoversTrainableParametersOnly) {
  Rule::body = [](const Builder&, Update& u) {
    u.new_parameter = u.parameter - u.lr * u.gradient;
    u.new_states = {u.states[0] + u.gradient};
  };
  Rule rule{Config(nullptr)};
  const auto update =
      build_update(differentiated(), {optimizer_table<Rule>(), &rule}, {"w", "tied", "frozen"});
  ASSERT_TRUE(update.ok()) << update.status().message();
  ASSERT_EQ(update->states.size(), 2u);
  EXPECT_EQ(update->states[1].name, "m.tied");
  EXPECT_EQ(update->states[1].parameter, "tied");
  EXPECT_EQ(update->states[1].initial, 0.5);
  EXPECT_EQ(update->program.find("frozen"), graph::kNone);
}

TEST(Update, WritesInPlaceWhatNothingReadsLater) {
  EXPECT_EQ(printed([](const Builder&, Update& u) {
              u.new_states = {u.states[0] + u.gradient};
              u.new_parameter = u.parameter - u.new_states[0];
            }),
            kHead +
                "  %8 = add(%m.w, %7) : f32[n=2] into %m.w update\n"
                "  %9 = sub(%w, %8) : f32[n=2] into %w update\n"
                "end\n");
}

// The state's rule reads the parameter as it was: the new one waits in a copy.
TEST(Update, KeepsWhatIsReadLater) {
  EXPECT_EQ(printed([](const Builder&, Update& u) {
              u.new_parameter = u.parameter - u.gradient;
              u.new_states = {u.states[0] + u.parameter};
            }),
            kHead +
                "  %8 = sub(%w, %7) : f32[n=2] update\n"
                "  %9 = add(%m.w, %w) : f32[n=2] into %m.w update\n"
                "  %10 = copy(%8) : f32[n=2] into %w update\n"
                "end\n");
}

TEST(Update, OneValueForTwoHomesAndAnUnchangedHome) {
  EXPECT_EQ(printed([](const Builder&, Update& u) {
              u.new_parameter = u.parameter - u.gradient;
              u.new_states = {u.new_parameter};
            }),
            kHead +
                "  %8 = sub(%w, %7) : f32[n=2] into %w update\n"
                "  %9 = copy(%8) : f32[n=2] into %m.w update\n"
                "end\n");
  EXPECT_EQ(printed([](const Builder&, Update& u) {
              u.new_parameter = u.parameter - u.gradient;
              u.new_states = {u.states[0]};
            }),
            kHead + "  %8 = sub(%w, %7) : f32[n=2] into %w update\nend\n");
}

// Parameter and state change places.
TEST(Update, SwapsAreSafe) {
  EXPECT_EQ(printed([](const Builder&, Update& u) {
              u.new_parameter = u.states[0];
              u.new_states = {u.parameter};
            }),
            kHead +
                "  %8 = copy(%m.w) : f32[n=2] update\n"
                "  %9 = copy(%w) : f32[n=2] into %m.w update\n"
                "  %10 = copy(%8) : f32[n=2] into %w update\n"
                "end\n");
}

TEST(Update, BadRulesAreNamed) {
  EXPECT_THAT(printed([](const Builder&, Update& u) {
                u.new_parameter = u.lr;
                u.new_states = {u.states[0]};
              }),
              HasSubstr("optimizer plugin 'rule' makes a new parameter of 'w' that is not a tensor "
                        "like the parameter"));
  EXPECT_THAT(printed([](const Builder&, Update& u) { u.new_parameter = u.parameter; }),
              HasSubstr("the rule must set new_parameter and one new state per state"));
  EXPECT_THAT(printed([](const Builder&, Update& u) {
                u.new_parameter = u.parameter;
                u.new_states = {Value{u.parameter.builder, 999}};
              }),
              HasSubstr("the update program has no such value"));
}

// What only passes write, and what belongs to models.
TEST(Update, ARuleHasItsOperandsAlone) {
  EXPECT_THAT(printed([](const Builder& b, Update& u) {
                u.new_parameter = b.op1("copy", {u.parameter});
                u.new_states = {u.states[0]};
              }),
              HasSubstr("there is no op 'copy'"));
  const struct {
    Rule::Body body;
    const char* says;
  } cases[] = {
      {[](const Builder& b, Update&) {
         b.input("x", DType::f32, {{"n", 2}});
       },
       "the input 'x'"},
      {[](const Builder& b, Update& u) { b.output("y", u.gradient); }, "the output 'y'"},
      {[](const Builder& b, Update&) {
         b.parameter("p", {{"n", 2}}, Init::zeros());
       },
       "a parameter of its own"},
  };
  for (const auto& c : cases) {
    static Rule::Body extra;
    extra = c.body;
    EXPECT_EQ(printed([](const Builder& b, Update& u) {
                extra(b, u);
                u.new_parameter = u.parameter;
                u.new_states = {u.states[0]};
              }),
              text("optimizer plugin 'rule' declares ", c.says,
                   " in its update\n  an update reads the parameter, its gradient, states and "
                   "scalars, and gives the new parameter and states\n  fix: report it to the "
                   "plugin's author, or choose another plugin"));
  }
  EXPECT_THAT(printed([](const Builder& b, Update& u) {
                u.new_parameter = u.parameter * b.scalar("momentum");
                u.new_states = {u.states[0]};
              }),
              HasSubstr("optimizer plugin 'rule' reads the scalar 'momentum' in program 'update'\n"
                        "  the host sets lr, weight_decay, step, clip_coefficient\n"));
}

// The facade cannot write these; another language's author can.
TEST(Update, BadDescriptionsOfStatesAreNamed) {
  using States = mgt_status* (*)(void*, const mgt_parameter_info*, mgt_state_desc*, uint32_t*);
  const auto message = [](States states) {
    static mgt_optimizer table;
    table = *optimizer_table<Rule>();
    table.states = states;
    const auto update = update_of(
        [](const Builder&, Update& u) {
          u.new_parameter = u.parameter;
          u.new_states.assign(u.states.begin(), u.states.end());
        },
        &table);
    return std::string(update.status().message());
  };
  static constexpr auto describe = [](mgt_state_desc* out, const char* name, mgt_dtype dtype) {
    out->name = to_abi(std::string_view(name));
    out->dtype = dtype;
  };
  EXPECT_EQ(message([](void*, const mgt_parameter_info*, mgt_state_desc* out, uint32_t* count) {
              describe(out, "m", MGT_DTYPE_F32);
              *count = 1;
              return static_cast<mgt_status*>(nullptr);
            }),
            "");
  EXPECT_EQ(message([](void*, const mgt_parameter_info*, mgt_state_desc*, uint32_t* count) {
              *count = MGT_MAX_OPTIMIZER_STATES + 1;
              return static_cast<mgt_status*>(nullptr);
            }),
            "optimizer plugin 'rule' describes 9 states of parameter 'w'\n  it may keep up to 8\n"
            "  fix: report it to the plugin's author, or choose another plugin");
  EXPECT_THAT(message([](void*, const mgt_parameter_info*, mgt_state_desc* out, uint32_t* count) {
                describe(out, "m", MGT_DTYPE_BF16);
                *count = 1;
                return static_cast<mgt_status*>(nullptr);
              }),
              HasSubstr("optimizer plugin 'rule' describes state 'm' of parameter 'w' with the "
                        "dtype bf16 (number "));
  EXPECT_THAT(message([](void*, const mgt_parameter_info*, mgt_state_desc* out, uint32_t* count) {
                describe(out, "m", MGT_DTYPE_F32);
                describe(out + 1, "m", MGT_DTYPE_F32);
                *count = 2;
                return static_cast<mgt_status*>(nullptr);
              }),
              HasSubstr("calls a state of parameter 'w' 'm'"));
}

}  // namespace
}  // namespace megatron::train
