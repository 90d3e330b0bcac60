// From text to token ids: jsonl or plain text in, `<prefix>_<key>_document.{bin,idx}` out, as
// Megatron's preprocess_data.py. Streams with bounded memory, encodes on all CPUs, keeps the order
// of the input, and leaves either complete datasets or nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/record_reader.hpp"
#include "megatron/dtype.hpp"
#include "megatron/status.hpp"
#include "megatron/tokenizer.hpp"

namespace megatron::data {

enum class InputFormat { jsonl, text };

struct PreprocessOptions {
  std::vector<std::string> inputs;  // read one after the other
  std::string output_prefix;
  InputFormat format = InputFormat::jsonl;
  std::vector<std::string> json_keys{"text"};  // jsonl: one dataset each
  RecordKind document = RecordKind::file;      // text: what a document is; its key is "text"
  bool append_eod = false;                     // end every document with the tokenizer's eod
  bool skip_bad_records = false;               // count them instead of stopping at the first
  bool foreign_ids = false;                    // take ids beyond the vocabulary, as Megatron does
  bool overwrite = false;                      // replace datasets that exist
  unsigned workers = 0;          // encoding threads; 0 = one a usable CPU, within the quota
  StopFlag stop = nullptr;       // when set: ends with CANCELLED, without datasets
  std::optional<DType> dtype{};  // default: u16 or i32, by the vocabulary
};

struct PreprocessProgress {
  int64_t bytes_done = 0, bytes_total = 0;  // of the inputs
  int64_t documents = 0, tokens = 0;        // written, all keys together
};

struct PreprocessReport {
  struct Dataset {
    std::string prefix;  // without .bin and .idx
    int64_t documents = 0, tokens = 0;
    int64_t empty_documents = 0;  // left out
  };
  std::vector<Dataset> datasets;  // one a key
  DType dtype = DType::i32;
  int64_t bad_records = 0;  // left out
  int64_t bytes = 0;        // read
};

// Called between batches, on the calling thread.
using PreprocessProgressFn = std::function<void(const PreprocessProgress&)>;

// Errors: the options; an input that cannot be read; a bad record, with file and line; an id beyond
// the tokenizer's vocabulary, unless `foreign_ids`; no document with text at all; a full disk.
Result<PreprocessReport> preprocess(const PreprocessOptions& options, TokenizerView tokenizer,
                                    const PreprocessProgressFn& progress = {});

}  // namespace megatron::data
