#include "mock_dataset.hpp"

#include <vector>

namespace megatron::mock {

MockDataset::MockDataset(const Config& config, const DatasetRequest& request)
    : fields_(value_or_throw(CausalFields::make(request.fields, "mock"))),
      vocab_size_(static_cast<uint64_t>(config.integer("vocab_size"))),
      strides_(static_cast<uint64_t>(config.integer("strides"))),
      noise_(static_cast<float>(config.number("noise"))),
      size_(request.num_samples > 0 ? request.num_samples : config.integer("num_samples")) {
  if (vocab_size_ == 0 && request.tokenizer)
    vocab_size_ = static_cast<uint64_t>(request.tokenizer->vocab_size());
  if (vocab_size_ == 0) {
    throw StatusError(invalid_argument("dataset 'mock' does not know how many token ids there are",
                                       "vocab_size is 0 and the experiment has no tokenizer",
                                       "set vocab_size, or name a tokenizer"));
  }
  const auto stream = [&](std::string_view what) {
    return RandomStream::make(request.seed, site_of(text("mock.", request.split, ".", what)));
  };
  shape_ = stream("shape");
  replaced_ = stream("replaced");
  replacement_ = stream("replacement");
}

void MockDataset::read(int64_t index, void* const* buffers) const {
  if (index < 0 || index >= size_) {
    throw StatusError(Status::error(Code::out_of_range, text("sample ", index, " does not exist"),
                                    text("the dataset has ", size_), "ask for one below that"));
  }
  const auto sample = static_cast<uint64_t>(index);
  const auto shape = shape_.block(0, sample);
  const uint64_t stride = 1 + shape[1] % strides_;
  uint64_t value = shape[0] % vocab_size_;

  thread_local std::vector<int32_t> ids;  // keeps its memory from sample to sample
  ids.resize(static_cast<size_t>(fields_.sequence_length()) + 1);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(value);
    value = (value + stride) % vocab_size_;
    if (noise_ > 0 && replaced_.uniform(i, sample) < noise_)
      ids[i] = static_cast<int32_t>(replacement_.bits(i, sample) % vocab_size_);
  }
  fields_.write(ids, {}, buffers);
}

}  // namespace megatron::mock
