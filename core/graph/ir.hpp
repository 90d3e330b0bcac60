// The intermediate representation: programs of ops over named-axis tensors. Flat and data-oriented:
// nodes and values by index, in execution order, no node classes. docs/ops.md lists the ops.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "megatron/abi/graph.h"
#include "megatron/dtype.hpp"
#include "megatron/index_map.hpp"
#include "megatron/status.hpp"

namespace megatron::graph {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = ~0u;

struct OpDef;

struct Dim {
  int64_t size = 0;
  std::string axis;  // "batch", "hidden", …; empty = never sharded
  friend bool operator==(const Dim&, const Dim&) = default;
};

struct Type {
  DType dtype = DType::f32;
  std::vector<Dim> dims;

  size_t rank() const { return dims.size(); }
  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtype_size(dtype)); }
  // A number that the host knows before the program starts.
  bool is_scalar() const { return dtype == DType::f64 && dims.empty(); }
  friend bool operator==(const Type&, const Type&) = default;
};
std::string to_string(const Type& type);

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, AttrValue, std::less<>>;

int64_t int_attr(const Attrs& attrs, std::string_view name, int64_t fallback = 0);
double float_attr(const Attrs& attrs, std::string_view name, double fallback = 0);
std::string string_attr(const Attrs& attrs, std::string_view name);

enum class ValueKind : uint8_t {
  parameter,  // trainable or frozen weights; lives across steps
  state,      // optimizer moments, gradient accumulators, caches; lives across steps
  input,      // fed before each call
  scalar,     // a named number, set before each call
  constant,   // a literal number
  result,     // output of a node
};

struct Value {
  std::string name;
  Type type;  // of what this rank holds; after partitioning, its sizes are local
  ValueKind kind = ValueKind::result;
  NodeId producer = kNone;
  double constant = 0;
  // A parameter or state in whose memory this result is written.
  ValueId into = kNone;
  // After partitioning: one map a dimension; empty before (every map is the identity).
  std::vector<IndexMap> maps;
};

enum class Phase : uint8_t { forward, backward, update };
std::string_view phase_name(Phase phase);

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> inputs;  // tensors and scalars, in the op's order
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string scope;      // "layers.3.mlp"
  int64_t block = -1;     // the last repeated layer that was begun; -1 before the first
  bool in_block = false;  // inside that layer, not behind it
  Phase phase = Phase::forward;
  // Outputs (bits) that add to the memory of their `into` when the last input, a scalar, is
  // non-zero.
  uint64_t accumulate_mask = 0;
};

struct Initializer {
  mgt_init_kind kind = MGT_INIT_ZEROS;
  double a = 0;
  double b = 0;
};

struct Parameter {
  ValueId value;
  Initializer init;
  bool trainable = true;
};

struct Output {
  std::string name;
  ValueId value;
};

// The sum over positions of a loss, and how many positions count. The gradient of `sum` is seeded
// with the scalar "grad_seed.<name>", which the train loop sets to weight / (count over the whole
// global batch).
struct LossTerm {
  std::string name;
  ValueId sum;
  ValueId count;
  double weight = 1;
};

struct Program {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // in execution order
  std::vector<Parameter> parameters;
  std::vector<ValueId> inputs;
  std::vector<ValueId> states;
  std::vector<Output> outputs;
  std::vector<LossTerm> losses;

  ValueId add_value(Value value);
  // Appends a node; creates its outputs with the given types. Names are derived from the op.
  NodeId add_node(Node node, std::span<const Type> output_types);
  const Type& type(ValueId id) const { return values[id].type; }
  // Arithmetic on numbers, which the host does wherever the result is read.
  bool yields_scalar(const Node& node) const {
    return !node.outputs.empty() && type(node.outputs[0]).is_scalar();
  }
  // Kind parameter, state, input or scalar, by name; kNone when there is none. Looks at every
  // value: for many names, a NameIndex.
  ValueId find(std::string_view name) const;
};

// Program::find for many names; the program must outlive it unchanged.
class NameIndex {
 public:
  explicit NameIndex(const Program& program);
  ValueId find(std::string_view name) const {
    const auto it = ids_.find(name);
    return it == ids_.end() ? kNone : it->second;
  }

 private:
  std::unordered_map<std::string_view, ValueId> ids_;
};

}  // namespace megatron::graph
