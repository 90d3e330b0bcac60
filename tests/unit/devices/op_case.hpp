// One op at one shape with its operands and an independent formula: the row that the tests of
// values, of worker counts, of allocations and of instruction sets share.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/device.hpp"

namespace megatron::cpu::testing {

// Elements of one tensor, whatever its element type: double holds f32 and i32 exactly.
using Values = std::vector<double>;

struct OpCase;
// The outputs, in double.
using Formula = std::function<std::vector<Values>(const OpCase&)>;

struct OpCase {
  std::string name;  // "attention/causal_gqa"
  KernelDesc desc;
  std::vector<Values> inputs;
  std::vector<Values> before;  // what accumulators hold; empty: NaN, which a kernel must overwrite
  std::vector<double> scalars;
  mgt_rng_key rng{1234, 7, 3};
  Formula formula;
  int in_place = -1;  // the input that output 0 lies over

  bool adds(size_t output) const { return desc.accumulates(output) && scalars.back() != 0; }
};

// Every case of the table.
const std::vector<OpCase>& op_cases();

// Writes a case with its op; draws operands from a generator seeded by the case's name.
class CaseWriter {
 public:
  CaseWriter(std::string_view op, std::string_view variant);

  CaseWriter& attr(std::string_view name, KernelAttr value);
  // Uniform in [low, high), rounded to f32.
  CaseWriter& input(TensorDesc t, double low = -1, double high = 1);
  CaseWriter& input(TensorDesc t, Values values);
  // Integers in [low, high).
  CaseWriter& ids(TensorDesc t, int64_t low, int64_t high);
  CaseWriter& output(TensorDesc t);
  // The last output becomes an accumulator that holds random numbers.
  CaseWriter& accumulates();
  CaseWriter& scalar(double value);
  CaseWriter& in_place(int input);
  OpCase formula(Formula f);

 private:
  OpCase case_;
  std::mt19937 random_;
};

TensorDesc f32(std::vector<int64_t> dims);
// With the given maps.
TensorDesc mapped(std::vector<IndexMap> maps);
TensorDesc i32(std::vector<int64_t> dims);
// Holds [begin, begin + held) of `global` indices, with `padding` local indices behind them.
IndexMap piece(int64_t global, int64_t begin, int64_t held, int64_t padding = 0);

// Local multi-index of element e of a row-major tensor, and back.
std::vector<int64_t> unravel(const TensorDesc& t, int64_t e);
int64_t ravel(const TensorDesc& t, const std::vector<int64_t>& index);

// One list of cases a family of ops.
void add_product_cases(std::vector<OpCase>& cases);
void add_embedding_cases(std::vector<OpCase>& cases);
void add_norm_cases(std::vector<OpCase>& cases);
void add_reduction_cases(std::vector<OpCase>& cases);
void add_attention_cases(std::vector<OpCase>& cases);
void add_loss_cases(std::vector<OpCase>& cases);
void add_movement_cases(std::vector<OpCase>& cases);
void add_elementwise_cases(std::vector<OpCase>& cases);
void add_chain_cases(std::vector<OpCase>& cases);

}  // namespace megatron::cpu::testing
