#include "passes/ring_attention.hpp"

namespace megatron::passes {
namespace {

using graph::Attrs;
using graph::ProgramBuilder;
using graph::ValueId;

class RingWriter {
 public:
  RingWriter(ProgramBuilder& builder, const Ring& ring) : builder_(builder), ring_(ring) {}

  // What the rank before this one holds.
  ValueId shift(ValueId v) {
    return builder_.op1("ring_shift", {v}, {{"axis", ring_.axis}, {"offset", int64_t{1}}});
  }
  // After `steps` shifts a rank holds the block of the rank `steps` before it.
  void set_maps(ValueId v, int64_t steps, size_t operand) {
    const int64_t owner = (ring_.index - steps + ring_.size) % ring_.size;
    builder_.program().values[v].maps = ring_.maps(owner, operand);
  }
  std::vector<ValueId> op(std::string_view name, std::vector<ValueId> inputs, const Attrs& attrs) {
    auto out = builder_.op(name, std::move(inputs), attrs);
    MGT_CHECK(out.ok(), out.status().message());
    return std::move(out).value();
  }
  void set_maps_like(ValueId v, ValueId like) {
    auto& values = builder_.program().values;
    values[v].maps = values[like].maps;
  }

 private:
  ProgramBuilder& builder_;
  const Ring& ring_;
};

}  // namespace

std::vector<ValueId> ring_attention(ProgramBuilder& builder, const Ring& ring,
                                    const std::vector<ValueId>& inputs, const Attrs& attrs) {
  RingWriter w(builder, ring);
  ValueId k = inputs[1];
  ValueId v = inputs[2];
  auto total = w.op("attention", {inputs[0], k, v}, attrs);
  for (int64_t step = 1; step < ring.size; ++step) {
    k = w.shift(k);
    v = w.shift(v);
    w.set_maps(k, step, 1);
    w.set_maps(v, step, 2);
    const auto part = w.op("attention", {inputs[0], k, v}, attrs);
    total = w.op("attention_merge", {total[0], total[1], part[0], part[1]}, {});
  }
  return total;
}

std::vector<ValueId> ring_attention_grad(ProgramBuilder& builder, const Ring& ring,
                                         const std::vector<ValueId>& inputs, const Attrs& attrs) {
  RingWriter w(builder, ring);
  ValueId k = inputs[2];
  ValueId v = inputs[3];
  const auto part = [&] {
    auto grads = w.op("attention_grad", {inputs[0], inputs[1], k, v, inputs[4], inputs[5]}, attrs);
    w.set_maps_like(grads[0], inputs[1]);
    w.set_maps_like(grads[1], k);
    w.set_maps_like(grads[2], v);
    return grads;
  };
  auto total = part();
  for (int64_t step = 1; step < ring.size; ++step) {
    k = w.shift(k);
    v = w.shift(v);
    w.set_maps(k, step, 2);
    w.set_maps(v, step, 3);
    const auto grads = part();
    total[0] = builder.op1("add", {total[0], grads[0]});
    total[1] = builder.op1("add", {w.shift(total[1]), grads[1]});
    total[2] = builder.op1("add", {w.shift(total[2]), grads[2]});
  }
  total[1] = w.shift(total[1]);  // home
  total[2] = w.shift(total[2]);
  return total;
}

}  // namespace megatron::passes
