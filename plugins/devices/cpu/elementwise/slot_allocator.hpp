// Where the result of each instruction of a chain goes: straight to an output where that is safe,
// else to the lowest scratch slot that no live result occupies.
#pragma once

#include <functional>
#include <vector>

#include "elementwise/expression.hpp"

namespace megatron::cpu {

class SlotAllocator {
 public:
  struct Placement {
    bool output = false;
    uint32_t index = 0;    // of the output or slot
    uint32_t factors = 0;  // slot of dropout's factors
  };

  // `aliased`: whether an operand is an input that an output may lie over.
  SlotAllocator(const Expression& x, const std::function<bool(const Operand&)>& aliased)
      : placements_(x.instructions.size()) {
    const auto n = x.instructions.size();
    std::vector<size_t> last_use(n, 0);
    size_t last_read = 0;  // of an input that an output may lie over
    for (size_t i = 0; i < n; ++i) {
      const Instruction& in = x.instructions[i];
      for (const Operand* o : {&in.a, &in.b}) {
        if (o == &in.b && arity(in.op) < 2) continue;
        if (o->kind == Operand::Kind::result) last_use[o->index] = i;
        if (aliased(*o)) last_read = i;
      }
    }
    for (uint32_t o = 0; o < x.outputs.size(); ++o) {
      const Operand& out = x.outputs[o];
      if (out.kind == Operand::Kind::result) last_use[out.index] = n;
      if (aliased(out)) last_read = n;
    }
    // Written where it belongs once no later instruction reads an input.
    for (uint32_t o = 0; o < x.outputs.size(); ++o) {
      const Operand& out = x.outputs[o];
      if (out.kind != Operand::Kind::result || out.index < last_read) continue;
      if (placements_[out.index].output) continue;
      placements_[out.index] = {true, o, 0};
    }
    std::vector<bool> busy;
    const auto take = [&] {
      const auto free = std::find(busy.begin(), busy.end(), false);
      const auto slot = static_cast<uint32_t>(free - busy.begin());
      if (free == busy.end()) busy.push_back(true);
      busy[slot] = true;
      return slot;
    };
    for (size_t i = 0; i < n; ++i) {
      const Instruction& in = x.instructions[i];
      uint32_t factors = 0;
      if (in.op == ElementOp::dropout) factors = take();
      // An operand that dies here makes room: instructions may write over what they read.
      for (const Operand* o : {&in.a, &in.b}) {
        if (o->kind != Operand::Kind::result || (o == &in.b && arity(in.op) < 2)) continue;
        if (last_use[o->index] == i && !placements_[o->index].output) {
          busy[placements_[o->index].index] = false;
        }
      }
      if (!placements_[i].output) placements_[i].index = take();
      placements_[i].factors = factors;
      if (in.op == ElementOp::dropout) busy[factors] = false;
    }
    count_ = static_cast<uint32_t>(busy.size());
  }

  const Placement& place(size_t instruction) const { return placements_[instruction]; }
  uint32_t upper_bound() const { return count_; }

 private:
  std::vector<Placement> placements_;
  uint32_t count_ = 0;
};

}  // namespace megatron::cpu
