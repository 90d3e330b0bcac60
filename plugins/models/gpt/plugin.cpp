#include "gpt.hpp"

namespace {

using megatron::option;

// Far beyond any model, and near enough that no size computed from them overflows.
constexpr double kMaxLayers = 1 << 10;
constexpr double kMaxSize = 1 << 24;

constexpr megatron::Option kOptions[] = {
    option("num_layers", MGT_OPTION_INT, "", "transformer blocks")
        .required()
        .at_least(1)
        .at_most(kMaxLayers),
    option("hidden_size", MGT_OPTION_INT, "", "width of the residual stream")
        .required()
        .at_least(1)
        .at_most(kMaxSize),
    option("num_attention_heads", MGT_OPTION_INT, "", "attention heads; divides hidden_size")
        .required()
        .at_least(1)
        .at_most(kMaxSize),
    option("ffn_hidden_size", MGT_OPTION_INT, "0", "width of the MLP; 0 = 4 · hidden_size")
        .at_least(0)
        .at_most(kMaxSize),
    option("seq_length", MGT_OPTION_INT, "", "tokens of a training sequence")
        .required()
        .at_least(1)
        .at_most(kMaxSize),
    option("max_position_embeddings", MGT_OPTION_INT, "0",
           "rows of the position table; 0 = seq_length")
        .at_least(0)
        .at_most(kMaxSize),
    option("vocab_size", MGT_OPTION_INT, "0", "token ids; 0 = the tokenizer's")
        .at_least(0)
        .at_most(kMaxSize),
    option("hidden_dropout", MGT_OPTION_FLOAT, "0.1", "dropout of embeddings and of both branches")
        .at_least(0)
        .below(1),
    option("attention_dropout", MGT_OPTION_FLOAT, "0.1", "dropout of attention probabilities")
        .at_least(0)
        .below(1),
    option("init_method_std", MGT_OPTION_FLOAT, "0.02", "standard deviation of initial weights")
        .above(0),
    option("layernorm_epsilon", MGT_OPTION_FLOAT, "1e-5", "added to variances").above(0),
};

}  // namespace

MEGATRON_PLUGIN(mgt_model, "0.1.0",
                .description = "GPT with learned positions, as Megatron-LM defines it.",
                .options = kOptions, .table = megatron::model_table<megatron::gpt::Gpt>());
