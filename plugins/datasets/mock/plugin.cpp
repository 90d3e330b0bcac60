#include "megatron/plugin.hpp"

#include "mock_dataset.hpp"

MEGATRON_PLUGIN(mgt_dataset, "0.1.0",
                .description = "Synthetic, learnable token sequences without files.",
                .options = megatron::mock::kOptions,
                .table = megatron::dataset_table<megatron::mock::MockDataset>());
