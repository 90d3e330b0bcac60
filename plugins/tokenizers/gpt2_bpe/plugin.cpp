#include "megatron/plugin.hpp"

#include "gpt2_tokenizer.hpp"

MEGATRON_PLUGIN(mgt_tokenizer, "0.1.0", .description = "GPT-2's byte-level BPE.",
                .options = megatron::gpt2::kOptions,
                .table = megatron::tokenizer_table<megatron::gpt2::Gpt2Tokenizer>());
