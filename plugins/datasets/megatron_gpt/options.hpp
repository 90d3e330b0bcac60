// The plugin's section of the manifest, named as Megatron's arguments.
#pragma once

#include <string>

#include "megatron/host.hpp"
#include "split.hpp"

namespace megatron::gpt {

inline constexpr Option kOptions[] = {
    option("data_path", MGT_OPTION_PATH, "", "common prefix of the .bin and .idx file").required(),
    option("split", MGT_OPTION_STRING, "\"969,30,1\"",
           "weights of train, valid and test; each takes its share of the sequences, in order"),
    option("eod_mask_loss", MGT_OPTION_BOOL, "false",
           "no loss at positions where the model reads an end-of-document token"),
    option("reset_position_ids", MGT_OPTION_BOOL, "false",
           "position ids start at 0 again after an end-of-document token; attention crosses it as "
           "before"),
    option(
        "add_extra_token_to_sequence", MGT_OPTION_BOOL, "true",
        "a sample takes one token more than the sequence, so that the last position has a label"),
    option("drop_last_partial_validation_sequence", MGT_OPTION_BOOL, "true",
           "leave out the last validation sample when the tokens do not fill it; "
           "false keeps it, padded, without loss on the padding"),
};

struct Options {
  std::string data_path;
  SplitWeights split{};
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool add_extra_token_to_sequence = true;
  bool drop_last_partial_validation_sequence = true;
};

Result<Options> read_options(const Config& config);

}  // namespace megatron::gpt
