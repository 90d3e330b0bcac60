// Numbers that ranks tell each other on the host: loss sums, counts, squared norms. Sums are taken
// in the order of coordinates, so that every rank gets the same bits.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "passes/layout.hpp"
#include "runtime/collectives.hpp"

namespace megatron::train {

class MeshSums {
 public:
  // `collectives` may be null where every axis has size 1. Both outlive this.
  MeshSums(const passes::Layout& layout, std::vector<int64_t> coordinates,
           runtime::Collectives* collectives)
      : layout_(layout), coordinates_(std::move(coordinates)), collectives_(collectives) {}

  // Adds `values` up over the ranks of every axis but `apart`; those of `apart` follow each other
  // in `all`, which has its size times as many elements.
  Status add(std::string_view name, std::span<const double> values, std::string_view apart,
             std::vector<double>& all);

  // Over one axis, by a balanced binary tree over coordinates with float32 sums: the tree continues
  // the one inside a rank. Only entries with `adds` set change.
  Status tree_add(std::string_view name, size_t axis, const std::vector<bool>& adds,
                  std::span<double> values);

 private:
  passes::Layout layout_;
  std::vector<int64_t> coordinates_;
  runtime::Collectives* collectives_;
  std::vector<double> one_, gathered_;
};

}  // namespace megatron::train
