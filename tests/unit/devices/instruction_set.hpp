// Runs tests on other code than the best for this processor: Highway compiles every kernel once for
// each instruction set and picks one when the program runs.
#pragma once

#include <hwy/targets.h>

#include <string>
#include <vector>

namespace megatron::cpu::testing {

// Those that the device was built for and this processor has, best first.
inline std::vector<int64_t> instruction_sets() { return hwy::SupportedAndGeneratedTargets(); }
inline std::string instruction_set_name(int64_t set) { return hwy::TargetName(set); }

// What is prepared and launched while this lives runs on `set`.
class UseInstructionSet {
 public:
  explicit UseInstructionSet(int64_t set) { choose(set); }
  UseInstructionSet(const UseInstructionSet&) = delete;
  UseInstructionSet& operator=(const UseInstructionSet&) = delete;
  ~UseInstructionSet() { choose(0); }

 private:
  static void choose(int64_t set) {
    hwy::SetSupportedTargetsForTest(set);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

}  // namespace megatron::cpu::testing
