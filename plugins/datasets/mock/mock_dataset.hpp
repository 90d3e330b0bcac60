// Synthetic samples that need no file: arithmetic progressions modulo the vocabulary, so that a
// small model learns them within some hundred steps and a broken one does not.
#pragma once

#include <cstdint>

#include "megatron/causal_sample.hpp"
#include "megatron/dataset.hpp"
#include "megatron/philox.hpp"

namespace megatron::mock {

inline constexpr Option kOptions[] = {
    option("vocab_size", MGT_OPTION_INT, "0", "number of token ids; 0 = the tokenizer's")
        .at_least(0)
        .at_most(2147483647),
    option("strides", MGT_OPTION_INT, "4",
           "a sample steps by one of 1 to this many, chosen at random; 1 makes every next token "
           "a function of the token before it")
        .at_least(1)
        .at_most(2147483647),
    option("noise", MGT_OPTION_FLOAT, "0.0",
           "probability that a token is replaced by a uniformly random one")
        .at_least(0)
        .at_most(1),
    option("num_samples", MGT_OPTION_INT, "1024",
           "size of the dataset when the run asks for one pass")
        .at_least(1),
};

class MockDataset : public Dataset {
 public:
  MockDataset(const Config& config, const DatasetRequest& request);  // throws StatusError

  int64_t size() const override { return size_; }
  void read(int64_t index, void* const* buffers) const override;

 private:
  CausalFields fields_;
  uint64_t vocab_size_ = 0, strides_ = 1;
  float noise_ = 0;
  int64_t size_ = 0;
  RandomStream shape_{}, replaced_{}, replacement_{};  // keyed by seed and split
};

}  // namespace megatron::mock
