// GPT as Megatron-LM defines it (Shoeybi et al. 2019, arXiv:1909.08053): pre-normalisation blocks,
// learned absolute positions, tanh GELU with bias, output layer tied to the word embedding.
#pragma once

#include <cstdint>
#include <string>

#include "megatron/model.hpp"

namespace megatron::gpt {

struct Hyperparameters {
  int64_t num_layers, hidden_size, num_attention_heads, ffn_hidden_size, seq_length,
      max_position_embeddings, vocab_size;
  double hidden_dropout, attention_dropout, init_method_std, layernorm_epsilon;

  static Hyperparameters read(const Config& config, int64_t tokenizer_vocab_size);
  int64_t head_dim() const { return hidden_size / num_attention_heads; }
};

class Gpt final : public Model {
 public:
  Gpt(const Config& config, int64_t vocab_size) : h_(Hyperparameters::read(config, vocab_size)) {}
  // "loss": inputs tokens, position_ids, labels i32 and loss_mask f32, all [batch, seq]; one term
  // "lm". "logits": inputs tokens, position_ids; output logits [batch, seq, vocab].
  void build(const ProgramRequest& request, const Builder& builder) override;

 private:
  Hyperparameters h_;
};

}  // namespace megatron::gpt
