// The three indices behind Megatron's GPT dataset, a function of the sequence lengths and the
// numbers in IndexPlan alone:
//
//   documents  the split's sequences, once per epoch, shuffled
//   starts     where sample k begins in that order: (position in documents, token offset)
//   shuffle    the order in which samples are served
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "megatron/status.hpp"
#include "split.hpp"

namespace megatron::gpt {

// int32 lengths at any alignment, as they lie in an .idx.
class Lengths {
 public:
  explicit Lengths(std::span<const std::byte> bytes) : data_(bytes.data()) {}
  int64_t operator[](int64_t sequence) const {
    int32_t value;
    std::memcpy(&value, data_ + 4 * sequence, sizeof value);
    return value;
  }
  std::span<const std::byte> bytes(int64_t first, int64_t count) const {
    return {data_ + 4 * first, static_cast<size_t>(4 * count)};
  }

 private:
  const std::byte* data_;
};

// Unsigned numbers of 4 or 8 bytes, whichever the largest needs: an index of one billion samples is
// too big for 8 everywhere, one of five billion too big for 4. Owned by a vector or by a mapped
// file.
class Column {
 public:
  Column() = default;
  template <class T>
  explicit Column(std::vector<T> values) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    auto owned = std::make_shared<const std::vector<T>>(std::move(values));
    *this = Column(std::as_bytes(std::span(*owned)), sizeof(T), owned);
  }
  Column(std::span<const std::byte> bytes, uint32_t width, std::shared_ptr<const void> owner)
      : bytes_(bytes), width_(width), owner_(std::move(owner)) {}

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / width_); }
  int64_t operator[](int64_t i) const {
    if (width_ == 4)
      return static_cast<int64_t>(reinterpret_cast<const uint32_t*>(bytes_.data())[i]);
    return static_cast<int64_t>(reinterpret_cast<const uint64_t*>(bytes_.data())[i]);
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  uint32_t width() const { return width_; }

 private:
  std::span<const std::byte> bytes_;
  uint32_t width_ = 4;
  std::shared_ptr<const void> owner_;
};

struct IndexPlan {
  SequenceRange range;
  int64_t tokens_per_epoch = 0;
  int64_t epochs = 1;
  int64_t samples = 0;  // rows of `starts` less one; at least what was asked for
  int64_t sequence_length = 0;
  int64_t extra = 1;                // 1: a sample has one token more, the last label
  bool separate_last = false;       // the last epoch is shuffled by itself
  int64_t samples_before_last = 0;  // with separate_last: samples that end before the last epoch
  uint32_t seed = 0;
};

struct IndexRequest {
  SequenceRange range;
  int64_t num_samples = 0;  // 0 = one epoch
  int64_t sequence_length = 0;
  bool extra_token = true;
  bool drop_last = true;  // false: a last sample that is not full counts too
  uint32_t seed = 0;
};

struct GptIndex {
  Column documents;       // [epochs * range.count] sequence numbers
  Column start_document;  // [samples + 1] positions in `documents`
  Column start_offset;    // [samples + 1] tokens
  Column shuffle;         // [samples]
};

// How many epochs and samples; FAILED_PRECONDITION when the split cannot fill one sample.
Result<IndexPlan> plan_index(const IndexRequest& request, Lengths lengths);

// Memory that the index takes while it is built.
int64_t index_bytes(const IndexPlan& plan);

GptIndex build_index(const IndexPlan& plan, Lengths lengths);

}  // namespace megatron::gpt
