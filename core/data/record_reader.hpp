// Cuts a text file into records and hands them out in batches of about one MiB. Memory holds one
// batch and the longest record, never the file (unless the file is the record).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/stop.hpp"
#include "megatron/file.hpp"
#include "megatron/status.hpp"

namespace megatron::data {

enum class RecordKind {
  line,       // without its line end
  paragraph,  // lines between blank lines
  file,       // all of it
};

struct Record {
  size_t offset = 0, size = 0;  // in Batch::data
  int64_t line = 0;             // where it starts, from 1
};

struct Batch {
  std::string path;
  std::string data;
  std::vector<Record> records;

  std::string_view text(const Record& r) const {
    return std::string_view(data).substr(r.offset, r.size);
  }
};

class RecordReader {
 public:
  // A file or a pipe. Errors: what the system says, a device, and a compressed file.
  static Result<RecordReader> open(const std::string& path, RecordKind kind,
                                   StopFlag stop = nullptr);

  // Replaces `batch` by the next one; false at the end. A batch may have no record. CANCELLED when
  // stopped, also while a pipe is silent.
  Result<bool> next(Batch& batch);

  int64_t size() const { return size_; }  // bytes of the file

 private:
  Status wait_for_input() const;
  Result<bool> fill(std::string& data, size_t bytes);  // false when the file has no more
  size_t border(std::string_view data) const;          // end of the last whole record
  void cut_lines(Batch& batch);
  void cut_paragraphs(Batch& batch);

  FileDescriptor fd_;
  std::string path_;
  RecordKind kind_ = RecordKind::line;
  StopFlag stop_ = nullptr;
  int64_t size_ = 0;
  int64_t line_ = 1;
  bool ended_ = false;
  std::string carry_;  // the beginning of a record that the last read cut
};

}  // namespace megatron::data
