// Element-wise chains, one element at a time. Each instruction is computed in double and rounded to
// float, so that a fused chain has the bits of its ops run one by one.
#include <vector>

#include "elementwise/broadcast.hpp"
#include "elementwise/dropout_index.hpp"
#include "elementwise/expression.hpp"
#include "megatron/philox.hpp"
#include "reference/reference.hpp"

namespace megatron::cpu::reference {
namespace {

// Dropout's factor of local element e: 0 or 1/(1−p); 0 on padding.
double keep_factor(const DropoutIndex& index, const Instruction& in, const mgt_rng_key& rng,
                   int64_t e) {
  double keep = 0;
  index.for_runs(e, 1, [&](int64_t, int64_t, int64_t sample, int64_t draw) {
    if (draw < 0) return;
    const auto stream = RandomStream::make(rng.seed, in.site, rng.step);
    const float u = stream.uniform(static_cast<uint64_t>(draw),
                                   static_cast<uint64_t>(rng.sample_offset + sample));
    keep = static_cast<double>(u) < in.p ? 0 : 1 / (1 - in.p);
  });
  return keep;
}

}  // namespace

std::unique_ptr<Kernel> elementwise(const KernelDesc& desc, const Host&, std::string& reason) {
  if (!is_f32(desc, reason)) return nullptr;
  const Expression x = expression_of(desc);
  const auto scratch = (x.instructions.size() + x.outputs.size()) * sizeof(double);
  return make_kernel(kName, scratch,
                     [x, number = is_number(x), periods = broadcast_periods(desc),
                      index = DropoutIndex(desc.outputs[0]),
                      elements = desc.outputs[0].elements()](const Launch& l) {
                       auto* results = l.workspace<double>();
                       for (int64_t e = 0; e < elements; ++e) {
                         const auto value = [&](const Operand& o) {
                           switch (o.kind) {
                             case Operand::Kind::input:
                               return static_cast<double>(l.input(o.index)[e % periods[o.index]]);
                             case Operand::Kind::scalar:
                               return l.scalar(o.index);
                             case Operand::Kind::result:
                               return results[o.index];
                             default:
                               return o.number;
                           }
                         };
                         for (size_t i = 0; i < x.instructions.size(); ++i) {
                           const Instruction& in = x.instructions[i];
                           const double keep =
                               in.op == ElementOp::dropout ? keep_factor(index, in, l.rng(), e) : 1;
                           const double y = evaluate(in.op, value(in.a), value(in.b), keep);
                           results[i] = number[i] ? y : static_cast<double>(static_cast<float>(y));
                         }
                         // All before the first is stored: an output may lie over an input.
                         double* outputs = results + x.instructions.size();
                         for (size_t o = 0; o < x.outputs.size(); ++o)
                           outputs[o] = value(x.outputs[o]);
                         for (size_t o = 0; o < x.outputs.size(); ++o) {
                           l.output(o)[e] = static_cast<float>(outputs[o]);
                         }
                       }
                     });
}

}  // namespace megatron::cpu::reference
