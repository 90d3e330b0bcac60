// What a program reads from outside: by name, at its logical type, and with ids within bounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "graph/ir.hpp"

namespace megatron::train {

struct Field {
  std::string name;
  graph::Type type;
  // The dimension that its elements number: an element is 0 up to below that size. Nothing: any
  // value does.
  std::optional<graph::Dim> ids;
};

// An input of a logical program.
Field field(const graph::Program& program, graph::ValueId input);

// OUT_OF_RANGE with the first of some elements of an i32 field that numbers nothing. A kernel would
// take it for a row that another rank holds, and train on zeros.
Status check_ids(const Field& field, std::span<const int32_t> elements);

}  // namespace megatron::train
