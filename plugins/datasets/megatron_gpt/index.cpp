#include "index.hpp"

#include <algorithm>
#include <numeric>

#include "random_state.hpp"

namespace megatron::gpt {
namespace {

// Products of token counts may pass 2^63 for an absurd request; they are compared, not stored.
using Wide = __int128;

constexpr Wide kMostEntries = Wide{1} << 40;  // of one index: 4 TiB, beyond any machine

Status too_small(const IndexPlan& plan) {
  return Status::error(
      Code::failed_precondition, "the split is too small for one sample",
      text("its ", plan.range.count, " sequences have ", plan.tokens_per_epoch,
           " tokens together, one sample needs ", plan.sequence_length + plan.extra),
      "use more data, a larger share in split, or a shorter sequence length");
}

std::vector<uint32_t> build_documents(const IndexPlan& plan, RandomState& random) {
  const auto per_epoch = static_cast<size_t>(plan.range.count);
  std::vector<uint32_t> documents(per_epoch * static_cast<size_t>(plan.epochs));
  for (size_t at = 0; at < documents.size(); at += per_epoch) {
    std::iota(documents.begin() + static_cast<ptrdiff_t>(at),
              documents.begin() + static_cast<ptrdiff_t>(at + per_epoch),
              static_cast<uint32_t>(plan.range.first));
  }
  const std::span all(documents);
  const size_t last = plan.separate_last ? per_epoch : 0;
  random.shuffle(all.first(all.size() - last));
  if (last > 0) random.shuffle(all.last(last));
  return documents;
}

// Consecutive samples share a token when extra is 1: the last label of one is the first token of
// the next, so sample k starts at token k * sequence_length.
template <class Position>
void build_starts(const IndexPlan& plan, Lengths lengths, std::span<const uint32_t> documents,
                  GptIndex& out) {
  std::vector<Position> position(static_cast<size_t>(plan.samples) + 1);
  std::vector<uint32_t> offset(position.size());
  size_t document = 0;
  int64_t at = 0;
  for (size_t sample = 1; sample < position.size(); ++sample) {
    int64_t remaining = plan.sequence_length + plan.extra;
    for (;;) {
      const int64_t available = lengths[documents[document]] - at;
      if (remaining <= available) {
        at += remaining - plan.extra;
        break;
      }
      remaining -= available;
      if (document + 1 == documents.size()) {  // only the last sample of an index that keeps it
        at = std::max<int64_t>(lengths[documents[document]] - plan.extra, 0);
        break;
      }
      ++document;
      at = 0;
    }
    position[sample] = static_cast<Position>(document);
    offset[sample] = static_cast<uint32_t>(at);
  }
  out.start_document = Column(std::move(position));
  out.start_offset = Column(std::move(offset));
}

// Whether numbers up to `count` need the 8 bytes of a wide column.
bool is_wide(int64_t count) { return count > int64_t{UINT32_MAX}; }

template <class T>
Column build_shuffle(const IndexPlan& plan, RandomState& random) {
  std::vector<T> order(static_cast<size_t>(plan.samples));
  std::iota(order.begin(), order.end(), T{0});
  const std::span all(order);
  const auto first =
      static_cast<size_t>(plan.separate_last ? plan.samples_before_last : plan.samples);
  random.shuffle(all.first(first));
  random.shuffle(all.subspan(first));
  return Column(std::move(order));
}

}  // namespace

Result<IndexPlan> plan_index(const IndexRequest& request, Lengths lengths) {
  if (request.range.first + request.range.count > int64_t{UINT32_MAX}) {
    return Status::error(Code::unimplemented,
                         text("sequence number ", request.range.first + request.range.count,
                              " does not fit the document index"),
                         "it stores sequence numbers in 32 bits", "split the dataset in parts");
  }
  IndexPlan plan;
  plan.range = request.range;
  plan.sequence_length = request.sequence_length;
  plan.extra = request.extra_token ? 1 : 0;
  plan.seed = request.seed;
  for (int64_t i = 0; i < plan.range.count; ++i)
    plan.tokens_per_epoch += lengths[plan.range.first + i];

  const Wide tokens = plan.tokens_per_epoch, sequence = plan.sequence_length;
  if (tokens <= plan.extra) return too_small(plan);
  Wide epochs = 1;
  if (request.num_samples > 0) {
    epochs = std::max<Wide>(1, (request.num_samples * sequence + plan.extra + tokens - 1) / tokens);
  }
  const Wide usable = epochs * tokens - plan.extra;
  const Wide samples = request.drop_last ? usable / sequence : (usable + sequence - 1) / sequence;
  if (samples < 1) return too_small(plan);
  if (epochs * plan.range.count > kMostEntries || samples > kMostEntries) {
    return Status::error(Code::resource_exhausted,
                         text(request.num_samples, " samples are too many for this split"),
                         text("its ", plan.tokens_per_epoch, " tokens would repeat ",
                              static_cast<int64_t>(std::min<Wide>(epochs, INT64_MAX)), " times"),
                         "lower the iterations or the batch size, or use more data");
  }
  plan.epochs = static_cast<int64_t>(epochs);
  plan.samples = static_cast<int64_t>(samples);
  if (plan.epochs > 1) {
    // When less than 80 % of the last epoch is read, it is shuffled by itself, so that what is read
    // is a fair part of it.
    const Wide before = ((epochs - 1) * tokens - plan.extra) / sequence;
    const Wide per_epoch = (tokens - plan.extra) / sequence;
    const Wide from_last = request.num_samples - before;
    plan.samples_before_last = static_cast<int64_t>(before);
    plan.separate_last =
        from_last <
        static_cast<int64_t>(0.80 * static_cast<double>(static_cast<int64_t>(per_epoch)));
  }
  return plan;
}

int64_t index_bytes(const IndexPlan& plan) {
  const int64_t documents = plan.epochs * plan.range.count;
  const int64_t start = (is_wide(documents) ? 8 : 4) + 4;
  const int64_t shuffle = is_wide(plan.samples) ? 8 : 4;
  return 4 * documents + start * (plan.samples + 1) + shuffle * plan.samples;
}

GptIndex build_index(const IndexPlan& plan, Lengths lengths) {
  RandomState random(plan.seed);  // one stream: documents first, then the samples
  auto documents = build_documents(plan, random);
  GptIndex index;
  if (is_wide(static_cast<int64_t>(documents.size()))) {
    build_starts<uint64_t>(plan, lengths, documents, index);
  } else {
    build_starts<uint32_t>(plan, lengths, documents, index);
  }
  index.documents = Column(std::move(documents));
  index.shuffle = is_wide(plan.samples) ? build_shuffle<uint64_t>(plan, random)
                                        : build_shuffle<uint32_t>(plan, random);
  return index;
}

}  // namespace megatron::gpt
