// Runs a case on one implementation, in memory of exactly the sizes asked for, between guards.
#pragma once

#include <memory>

#include "implementation.hpp"
#include "unit/devices/op_case.hpp"

namespace megatron::cpu::testing {

// Bytes between two guards that a kernel must leave alone. The memory starts at a multiple of
// `alignment`, never of twice as much: nothing relies on more than was promised.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, size_t alignment, unsigned char fill);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();
  void* data() { return data_; }
  bool intact() const;

 private:
  std::vector<unsigned char> storage_;
  unsigned char* data_;
  size_t bytes_;
};

// A kernel of one implementation with its operands; can be launched again and again.
class PreparedCase {
 public:
  PreparedCase(const OpCase& op_case, std::string_view implementation, const Host& host);

  // Puts back what outputs that are inputs or accumulators held.
  void reset();
  void launch();
  std::vector<Values> outputs() const;
  bool guards_intact() const;

 private:
  const OpCase& case_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<GuardedMemory>> inputs_, outputs_;
  std::unique_ptr<GuardedMemory> workspace_;
  std::vector<void*> input_pointers_, output_pointers_;
};

// prepare, launch, read; fails the current test when a guard was overwritten.
std::vector<Values> run(const OpCase& op_case, std::string_view implementation, const Host& host);

// The same bits, NaN included.
bool same_bits(const std::vector<Values>& a, const std::vector<Values>& b);

bool has_implementation(std::string_view op, std::string_view implementation);

}  // namespace megatron::cpu::testing
