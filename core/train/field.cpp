#include "train/field.hpp"

#include <algorithm>

#include "graph/op.hpp"

namespace megatron::train {

Field field(const graph::Program& program, graph::ValueId input) {
  const graph::Value& value = program.values[input];
  return {value.name, value.type, graph::numbered_dim(program, input)};
}

Status check_ids(const Field& field, std::span<const int32_t> elements) {
  if (!field.ids) return {};
  const auto beyond = [&](uint32_t id) { return static_cast<int64_t>(id) >= field.ids->size; };
  uint32_t largest = 0;  // a negative id is larger than any other
  for (const int32_t id : elements) largest = std::max(largest, static_cast<uint32_t>(id));
  if (!beyond(largest)) return {};
  const auto bad = std::find_if(elements.begin(), elements.end(),
                                [&](int32_t id) { return beyond(static_cast<uint32_t>(id)); });
  return Status::error(
      Code::out_of_range,
      text("field '", field.name, "' has ", *bad, " at position ", bad - elements.begin()),
      text("the model's dimension '", field.ids->axis, "' has the indices 0 to ",
           field.ids->size - 1),
      text("give data and model the same tokenizer, or enlarge '", field.ids->axis,
           "' in the model"));
}

}  // namespace megatron::train
