// Writes a `.bin/.idx` pair: tokens stream to the disk, only lengths and document starts stay in
// memory (12 bytes a sequence at most). Nothing appears under the final names before commit().
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megatron/indexed_dataset/reader.hpp"

namespace megatron {

// One thread at a time. Not committed: nothing is left behind.
class IndexedDatasetWriter {
 public:
  static Result<IndexedDatasetWriter> create(const std::string& prefix, DType dtype,
                                             bool multimodal = false) {
    if (!detail::index_code_of_dtype(dtype)) {
      return invalid_argument(text(prefix, ".idx: cannot store ", dtype_name(dtype)),
                              "the format has u8, i8, i16, u16, i32, i64, f32 and f64",
                              "choose u16 or i32 for token ids");
    }
    IndexedDatasetWriter writer;
    writer.dtype_ = dtype;
    writer.multimodal_ = multimodal;
    MGT_ASSIGN_OR_RETURN(writer.bin_, PendingFile::create(prefix + ".bin"));
    MGT_ASSIGN_OR_RETURN(writer.idx_, PendingFile::create(prefix + ".idx"));
    return writer;
  }

  // Appends one sequence to the open document. OUT_OF_RANGE when an id does not fit the dtype.
  template <class T>
  Status add_sequence(std::span<const T> tokens, int8_t mode = 0) {
    if (tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      return Status::error(Code::out_of_range, text(bin_.path(), ": a sequence is too long"),
                           text("it has ", tokens.size(), " tokens; the format holds 2147483647"),
                           "split the document");
    }
    MGT_RETURN_IF_ERROR(write_tokens(tokens));
    lengths_.push_back(static_cast<int32_t>(tokens.size()));
    if (multimodal_) modes_.push_back(mode);
    tokens_ += static_cast<int64_t>(tokens.size());
    return {};
  }
  // Closes the document; without a sequence since the last call it is an empty one.
  void end_document() { documents_.push_back(static_cast<int64_t>(lengths_.size())); }

  // One document of several sequences, `tokens` being all of them back to back.
  template <class T>
  Status add_document(std::span<const T> tokens, std::span<const int32_t> lengths) {
    size_t offset = 0;
    for (const auto n : lengths) {
      MGT_CHECK(n >= 0 && offset + static_cast<size_t>(n) <= tokens.size(),
                "lengths exceed tokens");
      MGT_RETURN_IF_ERROR(add_sequence(tokens.subspan(offset, static_cast<size_t>(n))));
      offset += static_cast<size_t>(n);
    }
    MGT_CHECK(offset == tokens.size(), "tokens exceed lengths");
    end_document();
    return {};
  }

  // Appends every document of another dataset (Megatron's add_index).
  Status merge(const IndexedDataset& other) {
    if (other.dtype() != dtype_ || other.multimodal() != multimodal_) {
      return invalid_argument(
          text("cannot merge ", other.data_path(), " into ", bin_.path()),
          text("it holds ", other.multimodal() ? "multimodal " : "", dtype_name(other.dtype()),
               ", the result holds ", multimodal_ ? "multimodal " : "", dtype_name(dtype_)),
          "preprocess both with one tokenizer");
    }
    const auto base = static_cast<int64_t>(lengths_.size());
    for (int64_t i = 0; i < other.sequence_count(); ++i) {
      lengths_.push_back(other.length(i));
      if (multimodal_) modes_.push_back(other.mode(i));
    }
    for (int64_t d = 1; d <= other.document_count(); ++d)
      documents_.push_back(base + other.document_start(d));
    tokens_ += other.token_count();
    return bin_.write(other.all_bytes());
  }

  int64_t sequence_count() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t document_count() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t token_count() const { return tokens_; }

  // The .idx is what makes the pair exist: an older one goes first, the new one comes last, so a
  // crash in between leaves no index that describes another .bin.
  Status commit() {
    MGT_CHECK(documents_.back() == sequence_count(), "commit inside an open document");
    MGT_RETURN_IF_ERROR(write_index());
    MGT_RETURN_IF_ERROR(idx_.sync());
    MGT_RETURN_IF_ERROR(bin_.sync());
    if (::unlink(idx_.path().c_str()) != 0 && errno != ENOENT)
      return detail::errno_status("replace", idx_.path(), errno);
    detail::sync_folder_of(idx_.path());
    MGT_RETURN_IF_ERROR(bin_.commit());
    return idx_.commit();
  }

 private:
  template <class T>
  Status write_tokens(std::span<const T> tokens) {
    switch (dtype_) {
      case DType::u8:
        return write_as<uint8_t>(tokens);
      case DType::i8:
        return write_as<int8_t>(tokens);
      case DType::i16:
        return write_as<int16_t>(tokens);
      case DType::u16:
        return write_as<uint16_t>(tokens);
      case DType::i32:
        return write_as<int32_t>(tokens);
      case DType::i64:
        return write_as<int64_t>(tokens);
      case DType::f32:
        return write_as<float>(tokens);
      default:
        return write_as<double>(tokens);
    }
  }

  template <class To, class T>
  Status write_as(std::span<const T> tokens) {
    if constexpr (std::is_same_v<To, T>) {
      return bin_.write(std::as_bytes(tokens));
    } else {
      std::array<To, 1024> block;
      for (size_t at = 0; at < tokens.size(); at += block.size()) {
        const auto n = std::min(block.size(), tokens.size() - at);
        for (size_t i = 0; i < n; ++i) {
          const T value = tokens[at + i];
          if constexpr (std::is_integral_v<To> && std::is_integral_v<T>) {
            if (!std::in_range<To>(value)) return does_not_fit(static_cast<int64_t>(value));
          }
          block[i] = static_cast<To>(value);
        }
        MGT_RETURN_IF_ERROR(bin_.write(std::as_bytes(std::span(block.data(), n))));
      }
      return {};
    }
  }

  Status does_not_fit(int64_t value) const {
    return Status::error(Code::out_of_range,
                         text(bin_.path(), ": token id ", value, " cannot be stored"),
                         text("the dataset's dtype is ", dtype_name(dtype_),
                              ", chosen for the tokenizer's vocabulary"),
                         "choose a wider dtype, or correct the tokenizer's vocabulary size");
  }

  Status write_index() {
    const auto item = static_cast<int64_t>(dtype_size(dtype_));
    MGT_RETURN_IF_ERROR(idx_.write(std::as_bytes(std::span(detail::kIndexMagic))));
    MGT_RETURN_IF_ERROR(idx_.write_value(detail::kIndexVersion));
    MGT_RETURN_IF_ERROR(idx_.write_value(*detail::index_code_of_dtype(dtype_)));
    MGT_RETURN_IF_ERROR(idx_.write_value(static_cast<uint64_t>(lengths_.size())));
    MGT_RETURN_IF_ERROR(idx_.write_value(static_cast<uint64_t>(documents_.size())));
    MGT_RETURN_IF_ERROR(idx_.write(std::as_bytes(std::span(lengths_))));
    int64_t pointer = 0;
    for (const auto n : lengths_) {
      MGT_RETURN_IF_ERROR(idx_.write_value(pointer));
      pointer += n * item;
    }
    MGT_RETURN_IF_ERROR(idx_.write(std::as_bytes(std::span(documents_))));
    return idx_.write(std::as_bytes(std::span(modes_)));
  }

  PendingFile bin_, idx_;
  DType dtype_ = DType::i32;
  bool multimodal_ = false;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_{0};
  std::vector<int8_t> modes_;
  int64_t tokens_ = 0;
};

}  // namespace megatron
