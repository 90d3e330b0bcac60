// A few training steps of a tiny GPT in one layout, its ranks threads of this process: losses,
// gradients, and the weights at the end as logical tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "passes/layout.hpp"

namespace megatron::test {

struct LayoutCase {
  std::string name;
  int64_t pipeline = 1, data = 1, context = 1, tensor = 1;
  std::string attention = "all_gather";  // ring, all_to_all: how context ranks meet
  bool sequence_parallel = false;
  int zero = 0;
  int64_t vocab_multiple = 1;
  std::string schedule = "1f1b";
  int64_t virtual_stages = 1;
  std::string order = "pdct";  // of the mesh axes, outermost first, by their first letters

  int64_t ranks() const { return pipeline * data * context * tensor; }
  passes::Layout layout() const;
};

struct Trajectory {
  std::vector<double> losses;          // of each step
  std::vector<double> gradient_norms;  // the same
  double validation = 0;               // after the last step
  std::map<std::string, std::vector<double>> weights;
  std::map<std::string, std::vector<double>> gradients;  // of the first step, before clipping
};

struct TrainingShape {
  int64_t layers = 4;
  int64_t micro_batches = 8;  // of the global batch
  int64_t steps = 3;
  double dropout = 0.2;
  std::string implementation = "auto";  // of the CPU device
};

// Every rank must see the same numbers; the first error of a rank is thrown.
Trajectory train(const LayoutCase& layout, const TrainingShape& shape);

// Largest ‖t − t₁‖ / ‖t₁‖ over logical tensors; the key bias, which has no gradient in exact
// arithmetic, is left out.
double largest_difference(const std::map<std::string, std::vector<double>>& many,
                          const std::map<std::string, std::vector<double>>& one);

}  // namespace megatron::test
