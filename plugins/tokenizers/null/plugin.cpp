#include "megatron/plugin.hpp"

#include "null_tokenizer.hpp"

MEGATRON_PLUGIN(
    mgt_tokenizer, "0.1.0",
    .description = "Text of token ids with spaces between them, as Megatron's NullTokenizer.",
    .options = megatron::null::kOptions,
    .table = megatron::tokenizer_table<megatron::null::NullTokenizer>());
