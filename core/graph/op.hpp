// The op table: one row an op, and the few questions that everything else asks of a row. What an op
// computes is in docs/ops.md; kernels belong to devices.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "graph/labels.hpp"

namespace megatron::graph {

class GradientScope;

enum class AttrKind : uint8_t { integer, floating, string, integers };

struct AttrSpec {
  std::string_view name;
  AttrKind kind;
  bool required = true;
};

// How values of several ranks that each cover a part combine to the whole.
enum class Reduce : uint8_t { sum, max, logsumexp };
std::string_view reduce_name(Reduce reduce);
std::optional<Reduce> parse_reduce(std::string_view name);

using InferFn = Result<std::vector<Type>> (*)(const Attrs& attrs, std::span<const Type> inputs);
using GradientFn = void (*)(GradientScope& scope);
using CostFn = double (*)(const Attrs& attrs, const Labels& labels, std::span<const int64_t> sizes);

struct OpDef {
  std::string_view name;
  // Labels of operands and results; empty: element-wise.
  std::string_view pattern = {};
  // The group whose rank the attribute `group_attr` gives.
  char group = 0;
  std::string_view group_attr = {};
  std::vector<AttrSpec> attrs = {};
  size_t outputs = 1;
  int arity = 1;  // element-wise ops
  // Operands (bits) in which the op is linear while the others are held: a partial sum may pass.
  uint64_t linear = 0;
  // Linear in all tensor operands taken together (add): partial only when every one is.
  bool jointly_linear = false;
  // Linear taken together, and an operand that every rank holds counts once: it becomes a partial
  // sum that is zero on all ranks but the first.
  bool joins_partials = false;
  // Operands (bits) that hold ids, i32; all other tensors are f32.
  uint64_t ids = 0;
  // The letter whose dimension those ids number: each is a global index of it.
  char ids_of = 0;
  // Letters whose dimension each rank must hold whole.
  std::string_view whole = {};
  // Two letters that are cut together: query heads and the key heads that they read.
  std::string_view coupled = {};
  // Outputs (bits) that can add to a gradient accumulator.
  uint64_t accumulates = 0;
  // Output 0's way to combine when a summed-over label is sharded; the others are plain sums.
  Reduce reduce = Reduce::sum;
  // Only where labels cannot say the result's type.
  InferFn infer = nullptr;
  // Null: the op has no gradient.
  GradientFn gradient = nullptr;
  // Floating-point operations; null: one per element of the largest operand.
  CostFn flops = nullptr;
  // Inserted by passes after partitioning; models cannot write it.
  bool internal = false;
  // Ranks exchange it, over the mesh axis that the attribute `axis` names.
  bool communicates = false;

  bool elementwise() const { return pattern.empty() && infer == nullptr; }
};

// All ops, sorted by name.
std::span<const OpDef> op_table();
// Null when there is none.
const OpDef* find_op(std::string_view name);
// A row that the program relies on; CHECKs.
const OpDef* op(std::string_view name);

Result<Labels> labels_of(const OpDef& op, const Attrs& attrs, std::span<const Type> inputs);
Labels labels_of(const Program& program, const Node& node);
// Global (or local, after partitioning) size of each label.
std::vector<int64_t> label_sizes(const Program& program, const Node& node, const Labels& labels);

// Checks attributes and operands, fills defaults of optional attributes in, gives the results'
// types.
Result<std::vector<Type>> infer_types(const OpDef& op, Attrs& attrs, std::span<const Type> inputs);

// The result has the type of the only operand.
Result<std::vector<Type>> infer_same(const Attrs& attrs, std::span<const Type> inputs);

// A type in attributes ("dims", "axes"), for ops that cannot infer it from operands.
Result<Type> type_from_attrs(const Attrs& attrs, DType dtype);
void type_to_attrs(const Type& type, Attrs& attrs);

double flops_of(const Program& program, const Node& node);

// The dimension that the elements of an i32 value number, for the ops that read it as ids: the
// smallest where there are several. Nothing when no op does.
std::optional<Dim> numbered_dim(const Program& program, ValueId value);

// What a gradient rule sees: the node, its operands and results, the gradients of its results, and
// a way to write nodes. Values are those of the program being differentiated.
class GradientScope {
 public:
  virtual ~GradientScope() = default;
  virtual const Node& node() const = 0;
  virtual const Type& type(ValueId value) const = 0;
  virtual bool needs(size_t input) const = 0;
  // Gradient of a result in the result's own shape; zeros when no gradient flows there.
  virtual ValueId grad(size_t output) = 0;
  // The same, but possibly of lower rank, to be broadcast; kNone when no gradient flows.
  virtual ValueId broadcast_grad(size_t output) = 0;
  virtual std::vector<ValueId> emit(std::string_view op, std::vector<ValueId> inputs,
                                    Attrs attrs = {}) = 0;
  virtual ValueId constant(double value) = 0;
  // Adds `gradient` to the gradient of operand `input`; summed over leading dimensions when the
  // operand was broadcast.
  virtual void set(size_t input, ValueId gradient) = 0;

  ValueId emit1(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return emit(name, std::move(inputs), std::move(attrs))[0];
  }
  ValueId in(size_t i) const { return node().inputs[i]; }
  ValueId out(size_t i) const { return node().outputs[i]; }
};

// Each file of ops/ adds its rows.
void add_attention_ops(std::vector<OpDef>& table);
void add_communication_ops(std::vector<OpDef>& table);
void add_elementwise_ops(std::vector<OpDef>& table);
void add_embedding_ops(std::vector<OpDef>& table);
void add_linear_ops(std::vector<OpDef>& table);
void add_loss_ops(std::vector<OpDef>& table);
void add_movement_ops(std::vector<OpDef>& table);
void add_norm_ops(std::vector<OpDef>& table);
void add_reduction_ops(std::vector<OpDef>& table);

}  // namespace megatron::graph
