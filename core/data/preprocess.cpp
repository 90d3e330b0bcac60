#include "data/preprocess.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/cpus.hpp"
#include "data/encode_pool.hpp"
#include "megatron/indexed_dataset.hpp"

namespace megatron::data {
namespace {

std::vector<std::string> keys_of(const PreprocessOptions& options) {
  return options.format == InputFormat::text ? std::vector<std::string>{"text"} : options.json_keys;
}

Status check(const PreprocessOptions& options, const TokenizerView& tokenizer) {
  if (options.inputs.empty())
    return invalid_argument("preprocess has no input", "no file was named",
                            "name at least one file");
  if (options.output_prefix.empty() || options.output_prefix.back() == '/') {
    return invalid_argument(text("output prefix '", options.output_prefix, "' is no file name"),
                            "the datasets are named <prefix>_<key>_document",
                            "give a prefix such as data/corpus");
  }
  const auto keys = keys_of(options);
  if (keys.empty())
    return invalid_argument("preprocess has no JSON key", "none was named", "name one, e.g. text");
  for (size_t i = 0; i < keys.size(); ++i) {
    if (std::count(keys.begin(), keys.end(), keys[i]) > 1) {
      return invalid_argument(text("JSON key '", keys[i], "' is named twice"),
                              "each key makes one dataset of its name", "name each key once");
    }
  }
  if (!options.append_eod) return {};
  const int64_t eod = tokenizer.special_tokens().eod, vocab_size = tokenizer.vocab_size();
  if (eod < 0) {
    return invalid_argument("append_eod needs an end-of-document id", "the tokenizer has none",
                            "choose a tokenizer with one, or leave append_eod off");
  }
  if (eod >= vocab_size) {
    return Status::error(
        Code::failed_precondition, text("the tokenizer's end-of-document id is ", eod),
        text("its vocabulary has the ids 0 to ", vocab_size - 1, " (a bug in the tokenizer)"),
        "choose another tokenizer, or leave append_eod off");
  }
  return {};
}

// One run: the readers, the writers and what was counted.
class Run {
 public:
  Run(const PreprocessOptions& options, const TokenizerView& tokenizer,
      const PreprocessProgressFn& progress)
      : options_(options), tokenizer_(tokenizer), progress_(progress) {
    report_.dtype = options.dtype.value_or(optimal_token_dtype(tokenizer.vocab_size()));
  }

  Result<PreprocessReport> run() {
    MGT_RETURN_IF_ERROR(open_inputs());
    MGT_RETURN_IF_ERROR(open_outputs());
    MGT_RETURN_IF_ERROR(stream());
    MGT_RETURN_IF_ERROR(commit());
    return std::move(report_);
  }

 private:
  // All inputs, before any work: the last of many files may be the misspelt one.
  Status open_inputs() {
    const auto kind = options_.format == InputFormat::jsonl ? RecordKind::line : options_.document;
    for (const auto& path : options_.inputs) {
      MGT_ASSIGN_OR_RETURN(auto reader, RecordReader::open(path, kind, options_.stop));
      at_.bytes_total += reader.size();
      readers_.push_back(std::move(reader));
    }
    return {};
  }

  Status open_outputs() {
    for (const auto& key : keys_of(options_)) {
      const auto prefix = text(options_.output_prefix, "_", key, "_document");
      MGT_RETURN_IF_ERROR(options_.overwrite ? check_is_no_input(prefix) : check_absent(prefix));
      MGT_ASSIGN_OR_RETURN(auto writer, IndexedDatasetWriter::create(prefix, report_.dtype));
      writers_.push_back(std::move(writer));
      report_.datasets.push_back({prefix, 0, 0, 0});
    }
    return {};
  }

  static Status check_absent(const std::string& prefix) {
    for (const char* extension : {".idx", ".bin"}) {
      const std::string path = prefix + extension;
      if (::access(path.c_str(), F_OK) != 0) continue;
      return Status::error(Code::already_exists, text(path, " exists already"),
                           "preprocess does not replace a dataset unasked",
                           "choose another output prefix, delete the dataset, or ask to overwrite");
    }
    return {};
  }

  // To overwrite is asked for, not to lose the text.
  Status check_is_no_input(const std::string& prefix) const {
    for (const char* extension : {".idx", ".bin"}) {
      for (const auto& input : options_.inputs) {
        std::error_code absent;  // equivalent to nothing
        if (!std::filesystem::equivalent(prefix + extension, input, absent)) continue;
        return invalid_argument(text(input, " is read and would be replaced"),
                                text("the dataset's name is ", prefix, extension),
                                "choose another output prefix");
      }
    }
    return {};
  }

  Status stream() {
    EncodeRules rules;
    if (options_.format == InputFormat::jsonl) rules.json_keys = options_.json_keys;
    if (options_.append_eod) rules.eod = tokenizer_.special_tokens().eod;
    rules.skip_bad_records = options_.skip_bad_records;
    rules.foreign_ids = options_.foreign_ids;
    const unsigned threads =
        options_.workers > 0 ? options_.workers : worker_count(usable_cpus().size());
    const size_t most_in_flight = size_t{2} * threads + 1;  // the bound on memory
    MGT_ASSIGN_OR_RETURN(const auto pool,
                         EncodePool::create(threads, std::move(rules), tokenizer_, options_.stop));
    std::deque<int64_t> bytes;  // of the batches in flight
    const auto write_oldest = [&]() -> Status {
      MGT_ASSIGN_OR_RETURN(auto batch, pool->next());
      MGT_RETURN_IF_ERROR(write(std::move(batch)));
      at_.bytes_done += bytes.front();
      bytes.pop_front();
      if (progress_) progress_(at_);
      return {};
    };
    for (auto& reader : readers_) {
      for (;;) {
        Batch batch;
        MGT_ASSIGN_OR_RETURN(const bool more, reader.next(batch));
        if (!more) break;
        bytes.push_back(static_cast<int64_t>(batch.data.size()));
        pool->submit(std::move(batch));
        if (pool->in_flight() >= most_in_flight) MGT_RETURN_IF_ERROR(write_oldest());
      }
    }
    while (pool->in_flight() > 0) MGT_RETURN_IF_ERROR(write_oldest());
    return check_stop(options_.stop);
  }

  Status write(EncodedBatch batch) {
    MGT_RETURN_IF_ERROR(batch.error);
    report_.bad_records += batch.bad_records;
    for (size_t k = 0; k < batch.columns.size(); ++k) {
      const auto& column = batch.columns[k];
      std::span<const int32_t> ids(column.ids);
      for (const auto n : column.lengths) {
        MGT_RETURN_IF_ERROR(writers_[k].add_sequence(ids.first(n)));
        writers_[k].end_document();
        ids = ids.subspan(n);
      }
      report_.datasets[k].empty_documents += column.empty;
      at_.documents += static_cast<int64_t>(column.lengths.size());
      at_.tokens += static_cast<int64_t>(column.ids.size());
    }
    return {};
  }

  Status commit() {
    report_.bytes = at_.bytes_done;
    for (size_t k = 0; k < writers_.size(); ++k) {
      auto& dataset = report_.datasets[k];
      dataset.documents = writers_[k].document_count();
      dataset.tokens = writers_[k].token_count();
      if (dataset.documents == 0) return no_document(k);
    }
    for (auto& writer : writers_) MGT_RETURN_IF_ERROR(writer.commit());
    return {};
  }

  Status no_document(size_t k) const {
    const auto& dataset = report_.datasets[k];
    return Status::error(
        Code::failed_precondition, text("no document for ", dataset.prefix),
        text("the input has ", dataset.empty_documents, " empty documents and ",
             report_.bad_records, " bad records, none with text"),
        options_.format == InputFormat::jsonl
            ? text("look at key '", keys_of(options_)[k], "' in ", options_.inputs[0])
            : text("look at ", options_.inputs[0]));
  }

  const PreprocessOptions& options_;
  const TokenizerView tokenizer_;
  const PreprocessProgressFn& progress_;
  std::vector<RecordReader> readers_;
  std::vector<IndexedDatasetWriter> writers_;
  PreprocessProgress at_;
  PreprocessReport report_;
};

}  // namespace

Result<PreprocessReport> preprocess(const PreprocessOptions& options, TokenizerView tokenizer,
                                    const PreprocessProgressFn& progress) {
  try {  // the tokenizer's view throws
    MGT_RETURN_IF_ERROR(check(options, tokenizer));
    return Run(options, tokenizer, progress).run();
  } catch (const StatusError& e) {
    return e.status();
  }
}

}  // namespace megatron::data
