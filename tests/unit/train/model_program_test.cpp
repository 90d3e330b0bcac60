// What a model plugin writes is what its table promises, or an error with the plugin's name:
// nothing behind these checks meets a program that it does not expect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megatron/model.hpp"
#include "train/model_programs.hpp"

namespace megatron::train {
namespace {

using testing::StartsWith;

constexpr int64_t kBatch = 2;
constexpr int64_t kSeq = 3;

class Fake : public Model {
 public:
  using Body = void (*)(const Builder&);
  Fake(const Config&, int64_t) {}
  void build(const ProgramRequest&, const Builder& b) override { body(b); }
  static Body body;
};
Fake::Body Fake::body = nullptr;

Value weight(const Builder& b) {
  return b.parameter("w", {{"vocab", 5}, {"hidden", 4}}, Init::zeros());
}
// [batch, seq, 4]
Value hidden(const Builder& b, int64_t batch, Value w) {
  return ops::embedding(b.input("tokens", DType::i32, {{"batch", batch}, {"seq", kSeq}}), w);
}

struct Case {
  const char* program;
  Fake::Body body;
  const char* says;  // "" = it is as promised
};

const Case kCases[] = {
    {"loss",
     [](const Builder& b) {
       const Value x = hidden(b, kBatch, weight(b));
       b.loss("l", b.op1("sum", {x}), b.op1("sum", {x}));
     },
     ""},
    {"loss", [](const Builder&) {},
     "model plugin 'fake' writes a program 'loss' without a loss term\n"},
    {"loss",
     [](const Builder& b) {
       const Value x = hidden(b, kBatch, weight(b));
       b.loss("l", b.op1("sum", {x}), x);
     },
     "loss 'l' of program 'loss' has the type f32[batch=2, seq=3, hidden=4]\n"
     "  a loss term is a sum and a count f32[] on the device\n"
     "  fix: reduce it with ops::linear_cross_entropy or the op 'sum'\n"
     "  while model plugin 'fake' writes program 'loss'"},
    {"loss",
     [](const Builder& b) {
       const Value x = hidden(b, kBatch, weight(b));
       b.loss("l", b.op1("sum", {x}), b.op1("sum", {x}));
       b.output("hidden", x);
     },
     "model plugin 'fake' writes a program 'loss' with the output 'hidden'\n"},
    {"loss",
     [](const Builder& b) {
       const Value x = hidden(b, kBatch + 1, weight(b));
       b.loss("l", b.op1("sum", {x}), b.op1("sum", {x}));
     },
     "model plugin 'fake' reads 'tokens' as i32[batch=3, seq=3] in program 'loss'\n"
     "  the first dimension of a field is the batch, of 2\n"},
    {"loss",
     [](const Builder& b) {
       const Value x = hidden(b, kBatch, weight(b)) * b.scalar("temperature");
       b.loss("l", b.op1("sum", {x}), b.op1("sum", {x}));
     },
     "model plugin 'fake' reads the scalar 'temperature' in program 'loss'\n"
     "  the host sets none there\n"},
    {"logits",
     [](const Builder& b) {
       const Value w = weight(b);
       b.output("logits", ops::linear(hidden(b, 1, w), w));
     },
     ""},
    {"logits", [](const Builder& b) { weight(b); },
     "model plugin 'fake' writes a program 'logits' without outputs\n"
     "  the host reads its one output 'logits', f32[1, 3, vocab]\n"},
    {"logits",
     [](const Builder& b) {
       const Value w = weight(b);
       const Value logits = ops::linear(hidden(b, 1, w), w);
       b.output("logits", logits);
       b.output("more", logits);
     },
     "model plugin 'fake' writes a program 'logits' with the outputs logits, more\n"},
    {"logits",
     [](const Builder& b) {
       const Value x = hidden(b, 1, weight(b));
       b.output("logits", b.op1("sum", {x}));
     },
     "model plugin 'fake' writes 'logits' as f32[]\n"},
    {"logits",
     [](const Builder& b) {
       const Value w = weight(b);
       b.output("logits", ops::linear(hidden(b, kBatch, w), w));
     },
     "model plugin 'fake' reads 'tokens' as i32[batch=2, seq=3] in program 'logits'\n"
     "  the host feeds tokens and position_ids, i32[1, 3]\n"},
    {"logits",
     [](const Builder& b) {
       const Value w = weight(b);
       const Value x = hidden(b, 1, w) * b.input("scale", DType::f32, {{"hidden", 4}});
       b.output("logits", ops::linear(x, w));
     },
     "model plugin 'fake' reads 'scale' as f32[hidden=4] in program 'logits'\n"},
};

TEST(ModelProgram, IsAsPromisedOrNamed) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.says);
    Fake::body = c.body;
    Fake fake{Config(nullptr), 0};
    const ModelView model{model_table<Fake>(), &fake, "model plugin 'fake'"};
    const auto program = std::string_view(c.program) == "loss" ? build_loss(model, kBatch)
                                                               : build_logits(model, kSeq);
    EXPECT_EQ(program.ok(), *c.says == '\0') << program.status().message();
    EXPECT_THAT(std::string(program.status().message()), StartsWith(c.says));
  }
}

}  // namespace
}  // namespace megatron::train
