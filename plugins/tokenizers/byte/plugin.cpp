#include "megatron/plugin.hpp"

#include "byte_tokenizer.hpp"

MEGATRON_PLUGIN(mgt_tokenizer, "0.1.0", .description = "One id a byte, 256 as end of document.",
                .table = megatron::tokenizer_table<megatron::byte::ByteTokenizer>());
