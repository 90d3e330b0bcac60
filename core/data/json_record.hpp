// Takes the wanted texts out of one line of a jsonl file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/status.hpp"

namespace megatron::data {

// texts[k] is the string under keys[k] of the object in `line`; as in Python, the last of equal
// keys counts. `where` ("corpus.jsonl:3") starts every error: no JSON, no object, no such key, no
// string.
Status read_json_record(std::string_view line, std::span<const std::string> keys,
                        std::string_view where, std::vector<std::string>& texts);

}  // namespace megatron::data
