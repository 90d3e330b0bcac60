#include "train/mesh_sums.hpp"

#include <algorithm>

namespace megatron::train {
namespace {

// Of ranks [first, last), whose numbers stand `stride` apart.
float tree(const double* values, size_t stride, size_t first, size_t last) {
  if (last - first == 1) return static_cast<float>(values[first * stride]);
  const size_t middle = first + (last - first + 1) / 2;
  return tree(values, stride, first, middle) + tree(values, stride, middle, last);
}

}  // namespace

Status MeshSums::add(std::string_view name, std::span<const double> values, std::string_view apart,
                     std::vector<double>& all) {
  one_.assign(values.begin(), values.end());
  for (size_t m = layout_.axes.size(); m-- > 0;) {
    const auto& axis = layout_.axes[m];
    if (axis.size == 1 || axis.name == apart) continue;
    gathered_.resize(one_.size() * static_cast<size_t>(axis.size));
    MGT_RETURN_IF_ERROR(collectives_->gather(axis.name, name, one_, gathered_));
    for (size_t i = 0; i < one_.size(); ++i) {
      double sum = 0;
      for (size_t r = 0; r < static_cast<size_t>(axis.size); ++r)
        sum += gathered_[r * one_.size() + i];
      one_[i] = sum;
    }
  }
  const auto axis = layout_.axis(apart);
  if (!axis) {
    all.assign(one_.begin(), one_.end());
    return {};
  }
  all.resize(one_.size() * static_cast<size_t>(layout_.axes[*axis].size));
  return collectives_->gather(apart, name, one_, all);
}

Status MeshSums::tree_add(std::string_view name, size_t m, const std::vector<bool>& adds,
                          std::span<double> values) {
  const auto ranks = static_cast<size_t>(layout_.axes[m].size);
  gathered_.resize(values.size() * ranks);
  MGT_RETURN_IF_ERROR(collectives_->gather(layout_.axes[m].name, name, values, gathered_));
  for (size_t i = 0; i < values.size(); ++i) {
    if (adds[i]) values[i] = static_cast<double>(tree(&gathered_[i], values.size(), 0, ranks));
  }
  return {};
}

}  // namespace megatron::train
