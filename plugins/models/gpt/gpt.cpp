#include "gpt.hpp"

#include <cmath>

namespace megatron::gpt {
namespace {

// Builds the layers of one program. Shapes: B batch, S seq, H hidden, N heads, D head_dim, F mlp, V
// vocab.
class Writer {
 public:
  Writer(const Hyperparameters& h, const Builder& b) : h_(h), b_(b) {}

  // ids, positions [B, S] -> [B, S, H]
  Value embed(Value ids, Value positions) {
    const auto scope = b_.scope("embedding");
    word_ = b_.parameter("embedding.word.weight",
                         {{"vocab", h_.vocab_size}, {"hidden", h_.hidden_size}}, init());
    const Value position = b_.parameter(
        "embedding.position.weight",
        {{"position", h_.max_position_embeddings}, {"hidden", h_.hidden_size}}, init());
    const Value x = ops::embedding(ids, word_) + ops::embedding(positions, position);
    return ops::dropout(x, h_.hidden_dropout, "embedding.dropout");
  }

  // [B, S, H] -> [B, S, H]
  Value layer(int64_t index, Value x) {
    const std::string name = text("layers.", index);
    const auto block = b_.block(index);
    const auto scope = b_.scope(name);
    x = x +
        drop(attention(name, norm(name + ".input_norm", x)), name + ".attention.output_dropout");
    return x +
           drop(mlp(name, norm(name + ".post_attention_norm", x)), name + ".mlp.output_dropout");
  }

  Value norm(const std::string& name, Value x) {
    const auto scope = b_.scope("norm");
    const Axis hidden{"hidden", h_.hidden_size};
    const Value gain = b_.parameter(name + ".weight", {hidden}, Init::ones());
    const Value bias = b_.parameter(name + ".bias", {hidden}, Init::zeros());
    return ops::layer_norm(x, gain, bias, h_.layernorm_epsilon);
  }

  Value word_embedding() const { return word_; }

 private:
  Init init() const { return Init::normal(h_.init_method_std); }
  // Projections back onto the residual stream: σ/√(2·layers), so that its variance does not grow
  // with depth.
  Init output_init() const {
    return Init::normal(h_.init_method_std / std::sqrt(2.0 * static_cast<double>(h_.num_layers)));
  }
  Value drop(Value x, const std::string& site) { return ops::dropout(x, h_.hidden_dropout, site); }

  Value attention(const std::string& layer, Value x) {
    const auto scope = b_.scope("attention");
    const std::string name = layer + ".attention";
    const Value q = heads(name + ".query", x);
    const Value k = heads(name + ".key", x);
    const Value v = heads(name + ".value", x);
    const double scale = 1.0 / std::sqrt(static_cast<double>(h_.head_dim()));
    const Value context =
        ops::attention(q, k, v, true, scale, h_.attention_dropout, name + ".dropout");
    const Value w = b_.parameter(name + ".output.weight",
                                 {{"hidden", h_.hidden_size},
                                  {"heads", h_.num_attention_heads},
                                  {"head_dim", h_.head_dim()}},
                                 output_init());
    const Value bias =
        b_.parameter(name + ".output.bias", {{"hidden", h_.hidden_size}}, Init::zeros());
    return ops::linear(context, w, 2) + bias;
  }

  // [B, S, H] -> [B, S, N, D]
  Value heads(const std::string& name, Value x) {
    const Axis heads{"heads", h_.num_attention_heads};
    const Axis head_dim{"head_dim", h_.head_dim()};
    const Value w =
        b_.parameter(name + ".weight", {heads, head_dim, {"hidden", h_.hidden_size}}, init());
    const Value bias = b_.parameter(name + ".bias", {heads, head_dim}, Init::zeros());
    return ops::linear(x, w) + bias;
  }

  Value mlp(const std::string& layer, Value x) {
    const auto scope = b_.scope("mlp");
    const Axis hidden{"hidden", h_.hidden_size};
    const Axis mlp{"mlp", h_.ffn_hidden_size};
    const Value up = b_.parameter(layer + ".mlp.up.weight", {mlp, hidden}, init());
    const Value up_bias = b_.parameter(layer + ".mlp.up.bias", {mlp}, Init::zeros());
    const Value down = b_.parameter(layer + ".mlp.down.weight", {hidden, mlp}, output_init());
    const Value down_bias = b_.parameter(layer + ".mlp.down.bias", {hidden}, Init::zeros());
    return ops::linear(ops::gelu(ops::linear(x, up) + up_bias), down) + down_bias;
  }

  const Hyperparameters& h_;
  const Builder& b_;
  Value word_;
};

[[noreturn]] void refuse(std::string_view fact, std::string_view cause, std::string_view action) {
  throw StatusError(invalid_argument(fact, cause, action));
}

}  // namespace

Hyperparameters Hyperparameters::read(const Config& config, int64_t tokenizer_vocab_size) {
  Hyperparameters h{};
  h.num_layers = config.integer("num_layers");
  h.hidden_size = config.integer("hidden_size");
  h.num_attention_heads = config.integer("num_attention_heads");
  h.ffn_hidden_size = config.integer("ffn_hidden_size");
  h.seq_length = config.integer("seq_length");
  h.max_position_embeddings = config.integer("max_position_embeddings");
  h.vocab_size = config.integer("vocab_size");
  h.hidden_dropout = config.number("hidden_dropout");
  h.attention_dropout = config.number("attention_dropout");
  h.init_method_std = config.number("init_method_std");
  h.layernorm_epsilon = config.number("layernorm_epsilon");
  if (h.ffn_hidden_size == 0) h.ffn_hidden_size = 4 * h.hidden_size;
  if (h.max_position_embeddings == 0) h.max_position_embeddings = h.seq_length;
  if (h.vocab_size == 0) h.vocab_size = tokenizer_vocab_size;
  if (h.vocab_size == 0) {
    refuse("model 'gpt' does not know its vocabulary size",
           "the experiment has no tokenizer and vocab_size is 0",
           "name a [tokenizer] plugin or set model.vocab_size");
  }
  if (h.vocab_size < tokenizer_vocab_size) {
    refuse(text("model.vocab_size ", h.vocab_size, " is smaller than the tokenizer's ",
                tokenizer_vocab_size),
           "some ids would have no embedding", "leave model.vocab_size out, or raise it");
  }
  if (h.hidden_size % h.num_attention_heads != 0) {
    refuse(text("model.hidden_size ", h.hidden_size,
                " is not divisible by model.num_attention_heads ", h.num_attention_heads),
           "every head has hidden_size / num_attention_heads dimensions", "change one of the two");
  }
  if (h.seq_length > h.max_position_embeddings) {
    refuse(text("model.seq_length ", h.seq_length, " exceeds model.max_position_embeddings ",
                h.max_position_embeddings),
           "positions beyond the table have no embedding", "raise max_position_embeddings");
  }
  return h;
}

void Gpt::build(const ProgramRequest& request, const Builder& b) {
  const bool loss = request.program == "loss";
  if (!loss && request.program != "logits") throw_unknown_program("gpt", request.program);
  const int64_t seq_length = request.seq_length == 0 ? h_.seq_length : request.seq_length;
  const Axis batch{"batch", request.batch_size};
  const Axis seq{"seq", seq_length};
  const Value tokens = b.input("tokens", DType::i32, {batch, seq});
  const Value positions = b.input("position_ids", DType::i32, {batch, seq});

  Writer w(h_, b);
  Value x = w.embed(tokens, positions);
  for (int64_t i = 0; i < h_.num_layers; ++i) x = w.layer(i, x);
  x = w.norm("final_norm", x);
  const auto scope = b.scope("output");
  if (!loss) {
    b.output("logits", ops::linear(x, w.word_embedding()));
    return;
  }
  const Value labels = b.input("labels", DType::i32, {batch, seq});
  const Value mask = b.input("loss_mask", DType::f32, {batch, seq});
  const auto term = ops::linear_cross_entropy(x, w.word_embedding(), labels, mask);
  b.loss("lm", term.sum, term.count);
}

}  // namespace megatron::gpt
