#include "megatron/plugin.hpp"

#include "gpt_dataset.hpp"

MEGATRON_PLUGIN(
    mgt_dataset, "0.1.0",
    .description = "Next-token samples of a .bin/.idx pair, as Megatron-LM's GPTDataset.",
    .options = megatron::gpt::kOptions,
    .table = megatron::dataset_table<megatron::gpt::GptDataset>());
