// Next-token samples out of a Megatron `.bin/.idx` pair: the same samples in the same order as
// Megatron-LM's GPTDataset for the same data, split, seed and number of samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "index.hpp"
#include "megatron/causal_sample.hpp"
#include "megatron/dataset.hpp"
#include "megatron/indexed_dataset.hpp"
#include "options.hpp"

namespace megatron::gpt {

class GptDataset : public Dataset {
 public:
  // Throws StatusError.
  GptDataset(const Config& config, const DatasetRequest& request);

  int64_t size() const override { return index_.shuffle.size(); }
  void read(int64_t index, void* const* buffers) const override;

 private:
  void set_rules(const DatasetRequest& request);
  void build(const DatasetRequest& request);
  // Appends tokens [from, to) of a sequence, `to` clipped to its end.
  void append(int64_t sequence, int64_t from, int64_t to, std::vector<int32_t>& ids) const;
  void check_ids(std::span<const int32_t> ids, int64_t sequence, int64_t from) const;

  Options options_;
  CausalFields fields_;
  CausalRules rules_;
  int64_t vocab_size_ = INT64_MAX;  // of the tokenizer; unlimited without one
  IndexedDataset data_;
  GptIndex index_;
};

}  // namespace megatron::gpt
