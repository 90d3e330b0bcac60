// Reads a `.bin/.idx` pair through memory maps. open() checks everything that the two files claim,
// so that no later read can leave them; it costs one pass over the .idx and allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "megatron/file.hpp"
#include "megatron/indexed_dataset/format.hpp"
#include "megatron/status.hpp"

namespace megatron {

class IndexedDataset {
 public:
  // Errors: NOT_FOUND / PERMISSION_DENIED from the system, DATA_LOSS for damage. Whether the index
  // ends with mode bytes is not written in it, so the caller says.
  static Result<IndexedDataset> open(const std::string& prefix, bool multimodal = false) {
    IndexedDataset data;
    data.multimodal_ = multimodal;
    MGT_ASSIGN_OR_RETURN(data.idx_, MappedFile::open(prefix + ".idx"));
    MGT_RETURN_IF_ERROR(data.check_header());
    MGT_RETURN_IF_ERROR(data.check_sequences());
    MGT_RETURN_IF_ERROR(data.check_documents());
    MGT_ASSIGN_OR_RETURN(data.bin_, MappedFile::open(prefix + ".bin"));
    MGT_RETURN_IF_ERROR(data.check_bin());
    return data;
  }

  DType dtype() const { return dtype_; }
  bool multimodal() const { return multimodal_; }
  int64_t sequence_count() const { return sequences_; }
  int64_t document_count() const { return documents_ - 1; }
  int64_t token_count() const { return tokens_; }
  const std::string& index_path() const { return idx_.path(); }
  const std::string& data_path() const { return bin_.path(); }

  int32_t length(int64_t sequence) const {  // tokens
    return idx_.load<int32_t>(lengths_at() + 4 * static_cast<size_t>(sequence));
  }
  int64_t pointer(int64_t sequence) const {  // bytes from the start of .bin
    return idx_.load<int64_t>(pointers_at() + 8 * static_cast<size_t>(sequence));
  }
  // The first sequence of a document; document_start(document_count()) is sequence_count().
  int64_t document_start(int64_t document) const {
    return idx_.load<int64_t>(documents_at() + 8 * static_cast<size_t>(document));
  }
  int8_t mode(int64_t sequence) const {  // 0 unless multimodal
    return multimodal_ ? idx_.load<int8_t>(modes_at() + static_cast<size_t>(sequence)) : int8_t{0};
  }
  // The int32 lengths as they lie in the file, unaligned: what identifies the dataset's shape.
  std::span<const std::byte> length_bytes() const {
    return idx_.bytes().subspan(lengths_at(), 4 * static_cast<size_t>(sequences_));
  }
  std::span<const std::byte> bytes(int64_t sequence) const {
    return bin_.bytes().subspan(static_cast<size_t>(pointer(sequence)),
                                static_cast<size_t>(length(sequence)) * dtype_size(dtype_));
  }
  std::span<const std::byte> all_bytes() const { return bin_.bytes(); }

  // [thread-safe] Tokens [offset, offset + out.size()) of a sequence, converted to T. The range
  // must lie in the sequence; a T narrower than dtype() truncates.
  template <class T>
  void read(int64_t sequence, int64_t offset, std::span<T> out) const {
    const std::byte* from =
        bin_.bytes().data() + pointer(sequence) + static_cast<size_t>(offset) * dtype_size(dtype_);
    switch (dtype_) {
      case DType::u8:
        return convert<uint8_t>(from, out);
      case DType::i8:
        return convert<int8_t>(from, out);
      case DType::i16:
        return convert<int16_t>(from, out);
      case DType::u16:
        return convert<uint16_t>(from, out);
      case DType::i32:
        return convert<int32_t>(from, out);
      case DType::i64:
        return convert<int64_t>(from, out);
      case DType::f32:
        return convert<float>(from, out);
      default:
        return convert<double>(from, out);
    }
  }

 private:
  size_t lengths_at() const { return detail::kIndexHeaderSize; }
  size_t pointers_at() const { return lengths_at() + 4 * static_cast<size_t>(sequences_); }
  size_t documents_at() const { return pointers_at() + 8 * static_cast<size_t>(sequences_); }
  size_t modes_at() const { return documents_at() + 8 * static_cast<size_t>(documents_); }

  template <class From, class T>
  static void convert(const std::byte* from, std::span<T> out) {
    if constexpr (std::is_same_v<From, T>) {
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
    } else {
      for (size_t i = 0; i < out.size(); ++i) {
        From value;
        std::memcpy(&value, from + i * sizeof(From), sizeof(From));
        out[i] = static_cast<T>(value);
      }
    }
  }

  Status damaged(std::string_view cause,
                 std::string_view action =
                     "write the dataset again, or restore both files from a "
                     "backup") const {
    return Status::error(Code::data_loss, text(idx_.path(), ": damaged index"), cause, action);
  }

  Status check_header() {
    const auto size = idx_.bytes().size();
    const auto magic_size = std::min(size, detail::kIndexMagic.size());
    if (size == 0) return damaged("the file is empty");
    if (std::memcmp(idx_.bytes().data(), detail::kIndexMagic.data(), magic_size) != 0) {
      return damaged(
          "it does not start with the bytes MMIDIDX of a Megatron index",
          "name the prefix of a pair written by `megatron-host preprocess` or Megatron-LM");
    }
    if (size < detail::kIndexHeaderSize) {
      return damaged(text("the file ends inside its header: it has ", size,
                          " bytes, the header needs ", detail::kIndexHeaderSize));
    }
    if (const auto version = idx_.load<uint64_t>(detail::kIndexVersionOffset);
        version != detail::kIndexVersion) {
      return damaged(
          text("its version is ", version, "; this reader knows version ", detail::kIndexVersion));
    }
    const auto code = idx_.load<uint8_t>(detail::kIndexDTypeOffset);
    const auto dtype = detail::dtype_of_index_code(code);
    if (!dtype) {
      return damaged(text("its dtype code is ", static_cast<uint32_t>(code), "; codes are 1 to 8"));
    }
    dtype_ = *dtype;
    const auto sequences = idx_.load<uint64_t>(detail::kIndexSequencesOffset);
    const auto documents = idx_.load<uint64_t>(detail::kIndexDocumentsOffset);
    return check_sections(sequences, documents);
  }

  // Compares the header's counts with the file's size by dividing, so that no count overflows.
  Status check_sections(uint64_t sequences, uint64_t documents) {
    uint64_t left = idx_.bytes().size() - detail::kIndexHeaderSize;
    const struct {
      std::string_view name;
      uint64_t count, item;
    } sections[] = {{"sequence lengths", sequences, 4},
                    {"sequence pointers", sequences, 8},
                    {"document indices", documents, 8},
                    {"sequence modes", multimodal_ ? sequences : 0, 1}};
    for (const auto& section : sections) {
      if (section.count > left / section.item) {
        return damaged(text("the file ends inside its ", section.name, ": the header announces ",
                            section.count, " of ", section.item, " bytes, ", left,
                            " bytes are left of ", idx_.bytes().size()));
      }
      left -= section.count * section.item;
    }
    if (left > 0) {
      const bool modes = !multimodal_ && left == sequences;
      return damaged(text(left, " bytes follow its last section",
                          modes ? ", as many as a multimodal index has" : ""),
                     modes ? "open it as multimodal" : "write the dataset again");
    }
    sequences_ = static_cast<int64_t>(sequences);
    documents_ = static_cast<int64_t>(documents);
    return {};
  }

  Status check_sequences() {
    const auto item = static_cast<int64_t>(dtype_size(dtype_));
    int64_t bytes = 0;
    for (int64_t i = 0; i < sequences_; ++i) {
      const auto n = length(i);
      if (n < 0) return damaged(text("the length of sequence ", i, " is ", n));
      if (pointer(i) != bytes) {
        return damaged(text("the pointer of sequence ", i, " is ", pointer(i),
                            "; the lengths before it make ", bytes));
      }
      bytes += n * item;  // < 2^31 * 8 each; a file of 2^60 bytes of lengths does not exist
    }
    tokens_ = bytes / item;
    return {};
  }

  Status check_documents() const {
    if (documents_ < 1) return damaged("it has no document indices; at least the end is needed");
    if (document_start(0) != 0)
      return damaged(text("document 0 starts at sequence ", document_start(0), ", not 0"));
    for (int64_t d = 1; d < documents_; ++d) {
      if (document_start(d) < document_start(d - 1)) {
        return damaged(text("document index ", d, " is ", document_start(d), ", below ",
                            document_start(d - 1), " before it"));
      }
    }
    if (document_start(documents_ - 1) != sequences_) {
      return damaged(text("the documents end at sequence ", document_start(documents_ - 1), " of ",
                          sequences_));
    }
    return {};
  }

  Status check_bin() const {
    const auto expected = static_cast<uint64_t>(tokens_) * dtype_size(dtype_);
    const auto actual = bin_.bytes().size();
    if (actual == expected) return {};
    return Status::error(
        Code::data_loss,
        text(bin_.path(), ": ", actual < expected ? "shorter" : "longer", " than its index says"),
        text("the file has ", actual, " bytes, ", idx_.path(), " describes ", expected, " (",
             tokens_, " tokens of ", dtype_name(dtype_), ")"),
        "copy both files again from one source, or write the dataset again");
  }

  MappedFile idx_, bin_;
  bool multimodal_ = false;
  DType dtype_ = DType::i32;
  int64_t sequences_ = 0, documents_ = 0, tokens_ = 0;
};

}  // namespace megatron
