#include "gpt_dataset.hpp"

#include <algorithm>
#include <filesystem>

#include "cache.hpp"

namespace megatron::gpt {
namespace {

Result<uint32_t> numpy_seed(uint64_t seed) {
  if (seed <= UINT32_MAX) return static_cast<uint32_t>(seed);
  return invalid_argument(text("seed ", seed, " is too large for dataset 'megatron_gpt'"),
                          "its shuffles follow NumPy's RandomState, which takes 32 bits",
                          "choose a seed below 4294967296");
}

Status check_token_type(const IndexedDataset& data) {
  if (!is_floating(data.dtype())) return {};
  return Status::error(Code::failed_precondition,
                       text(data.index_path(), ": holds ", dtype_name(data.dtype()), " values"),
                       "token ids are integers", "name a dataset that holds token ids");
}

std::string cache_folder(const DatasetRequest& request, const std::string& data_path) {
  const auto base = request.cache_dir.empty()
                        ? std::filesystem::path(data_path).parent_path() / "cache"
                        : std::filesystem::path(request.cache_dir);
  return (base / "megatron_gpt").string();
}

}  // namespace

GptDataset::GptDataset(const Config& config, const DatasetRequest& request)
    : options_(value_or_throw(read_options(config))),
      fields_(value_or_throw(CausalFields::make(request.fields, "megatron_gpt"))) {
  set_rules(request);
  data_ = value_or_throw(IndexedDataset::open(options_.data_path));
  throw_if_error(check_token_type(data_));
  build(request);
}

void GptDataset::set_rules(const DatasetRequest& request) {
  if (request.tokenizer) vocab_size_ = request.tokenizer->vocab_size();
  rules_.eod_mask_loss = options_.eod_mask_loss;
  rules_.reset_position_ids = options_.reset_position_ids;
  if (!rules_.eod_mask_loss && !rules_.reset_position_ids) return;
  if (request.tokenizer) rules_.eod = request.tokenizer->special_tokens().eod;
  if (rules_.eod < 0) {
    const auto key = rules_.eod_mask_loss ? "eod_mask_loss" : "reset_position_ids";
    throw StatusError(
        invalid_argument(text(key, " = true needs the end-of-document id"),
                         request.tokenizer ? "the experiment's tokenizer has none"
                                           : "the experiment has no tokenizer",
                         text("name the tokenizer that wrote the data, or set ", key, " = false")));
  }
}

void GptDataset::build(const DatasetRequest& request) {
  const int split = value_or_throw(split_number(request.split));
  IndexRequest index;
  index.range = split_range(options_.split, split, data_.sequence_count());
  index.num_samples = request.num_samples;
  index.sequence_length = fields_.sequence_length();
  index.extra_token = options_.add_extra_token_to_sequence;
  index.drop_last = request.split != "valid" || options_.drop_last_partial_validation_sequence;
  index.seed = value_or_throw(numpy_seed(request.seed));
  const auto what = text("preparing split '", request.split, "' of ", data_.index_path());
  if (index.range.count <= 0) {
    throw StatusError(
        Status::error(Code::failed_precondition, "the split has no sequence",
                      text("its share of ", data_.sequence_count(), " sequences rounds to none"),
                      "give it a larger weight in split, or use more data")
            .context(what));
  }
  const Lengths lengths(data_.length_bytes());
  auto plan = plan_index(index, lengths);
  if (!plan.ok()) throw StatusError(std::move(plan).status().context(what));
  auto built =
      IndexCache(cache_folder(request, options_.data_path), request.host).get(*plan, lengths);
  if (!built.ok()) throw StatusError(std::move(built).status().context(what));
  index_ = *std::move(built);
}

void GptDataset::read(int64_t index, void* const* buffers) const {
  if (index < 0 || index >= size()) {
    throw StatusError(Status::error(Code::out_of_range, text("sample ", index, " does not exist"),
                                    text("the dataset has ", size()), "ask for one below that"));
  }
  const int64_t extra = options_.add_extra_token_to_sequence ? 1 : 0;
  const int64_t row = index_.shuffle[index];
  const int64_t first = index_.start_document[row], last = index_.start_document[row + 1];
  const int64_t begin = index_.start_offset[row], end = index_.start_offset[row + 1] + extra;

  thread_local std::vector<int32_t> ids;  // keeps its memory from sample to sample
  ids.clear();
  for (int64_t d = first; d <= last; ++d) {
    append(index_.documents[d], d == first ? begin : 0, d == last ? end : INT64_MAX, ids);
  }
  fields_.write(ids, rules_, buffers);
}

void GptDataset::append(int64_t sequence, int64_t from, int64_t to,
                        std::vector<int32_t>& ids) const {
  to = std::min<int64_t>(to, data_.length(sequence));
  if (from >= to) return;
  const auto old_size = ids.size(), count = static_cast<size_t>(to - from);
  ids.resize(old_size + count);
  const auto out = std::span(ids).subspan(old_size);
  if (data_.dtype() == DType::i64) {  // may not fit: -1 then stands for "no token id"
    std::vector<int64_t> wide(count);
    data_.read(sequence, from, std::span(wide));
    std::transform(wide.begin(), wide.end(), out.begin(), [](int64_t v) {
      return std::in_range<int32_t>(v) ? static_cast<int32_t>(v) : -1;
    });
  } else {
    data_.read(sequence, from, out);
  }
  check_ids(out, sequence, from);
}

// An id outside the vocabulary would make the model read past its embedding.
void GptDataset::check_ids(std::span<const int32_t> ids, int64_t sequence, int64_t from) const {
  const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
  if (*low >= 0 && *high < vocab_size_) return;
  const auto bad = *low < 0 ? low : high;
  throw StatusError(
      Status::error(Code::failed_precondition,
                    text(data_.data_path(), ": token ", from + (bad - ids.begin()), " of sequence ",
                         sequence, " is not an id of the tokenizer"),
                    *low < 0 ? text("it is negative or above 2147483647")
                             : text("it is ", *high, ", the tokenizer has ", vocab_size_, " ids"),
                    "name the tokenizer that wrote the data"));
}

}  // namespace megatron::gpt
