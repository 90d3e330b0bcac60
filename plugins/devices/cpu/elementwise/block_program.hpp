// An element-wise chain compiled for evaluation in blocks that stay in the first-level cache: each
// instruction runs over a whole block before the next one. Numbers, scalars and rank-0 tensors are
// uniform: what depends on them alone is computed once a launch.
#pragma once

#include <vector>

#include "elementwise/dropout_index.hpp"
#include "elementwise/expression.hpp"
#include "simd/dropout_factors.hpp"
#include "simd/element_kernels.hpp"

namespace megatron::cpu {

class BlockProgram {
 public:
  // `periods`: elements of each input (see broadcast.hpp); `result`: the shape of every output.
  BlockProgram(const Expression& expression, std::vector<int64_t> periods,
               const TensorDesc& result);

  uint64_t workspace_bytes(uint32_t workers) const;
  void run(const Host& host, const Launch& launch) const;

 private:
  enum class Place : uint8_t {
    uniform,  // one number
    input,    // straight from memory
    pattern,  // an input of a short period, repeated to the length of a block
    slot,     // a block-long intermediate result
    output,
  };
  struct Ref {
    Place place = Place::uniform;
    uint32_t index = 0;
  };
  // How a uniform number is found, in order. What depends on a tensor is rounded like the elements
  // of one, so that a fused chain has the bits of its ops run one by one; scalars alone stay
  // double.
  struct UniformStep {
    Operand source;  // number, scalar, input; or an instruction over earlier ones when op_valid
    bool is_op = false;
    ElementOp op = ElementOp::add;
    uint32_t a = 0, b = 0;
    bool rounds = false;
  };
  struct Step {
    enum class Kind : uint8_t { apply, dropout, copy } kind = Kind::apply;
    ElementFn fn = nullptr;
    Ref a, b, to;
    DropoutRate rate{};
    uint64_t site = 0;
  };
  struct Pattern {
    uint32_t input;
    int64_t period;
  };
  // Everything that one task needs to find its operands.
  struct Scratch {
    const Launch* launch;
    const double* uniforms;
    const float* uniform_floats;
    float* slots;
    float* patterns;
  };

  uint32_t uniform_of(const Operand& operand);
  Ref ref_of(const Operand& operand, const std::vector<Ref>& results);
  void compile(const Expression& expression);
  void choose_block();
  void run_block(const Scratch& s, int64_t begin, int64_t n) const;
  const float* source(const Scratch& s, Ref ref, int64_t begin) const;
  float* target(const Scratch& s, Ref ref, int64_t begin) const;
  int64_t worker_floats() const;

  std::vector<int64_t> periods_;
  DropoutIndex dropout_;
  int64_t elements_;
  size_t outputs_;
  std::vector<UniformStep> uniforms_;
  std::vector<Step> steps_;
  std::vector<Pattern> patterns_;
  std::vector<int64_t> long_periods_;  // at whose multiples a block must end
  uint32_t slots_ = 0;
  int64_t block_ = 0;  // elements, the longest
  int64_t task_ = 0;   // elements, a multiple of block_
};

}  // namespace megatron::cpu
