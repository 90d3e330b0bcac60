// The `.bin/.idx` writer and reader against the format's own numbers.
#include "megatron/indexed_dataset.hpp"

#include <gmock/gmock.h>

#include "unit/data/support.hpp"

namespace megatron {
namespace {

using test::read_file;
using test::TempFolder;
using testing::HasSubstr;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const unsigned char b : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += {kDigits[b >> 4], kDigits[b & 15]};
  }
  return out;
}

using Sequences = std::vector<std::vector<int32_t>>;

void write_documents(const std::string& prefix, DType dtype,
                     const std::vector<Sequences>& documents) {
  auto writer = IndexedDatasetWriter::create(prefix, dtype);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  for (const auto& document : documents) {
    for (const auto& sequence : document)
      ASSERT_TRUE(writer->add_sequence(std::span<const int32_t>(sequence)).ok());
    writer->end_document();
  }
  const auto status = writer->commit();
  ASSERT_TRUE(status.ok()) << status.message();
}

// Documents of one sequence each.
void write(const std::string& prefix, DType dtype, const Sequences& sequences) {
  std::vector<Sequences> documents;
  for (const auto& sequence : sequences) documents.push_back({sequence});
  write_documents(prefix, dtype, documents);
}

std::vector<int32_t> sequence(const IndexedDataset& data, int64_t i) {
  std::vector<int32_t> out(static_cast<size_t>(data.length(i)));
  data.read(i, 0, std::span(out));
  return out;
}

// The index of documents [1,2,3],[4,5] as uint16 has md5 84717ac691928be4ab7847ab353c4089.
TEST(IndexedDataset, WritesTheReferenceBytes) {
  const TempFolder dir;
  write(dir / "d", DType::u16, {{1, 2, 3}, {4, 5}});
  EXPECT_EQ(hex(read_file(dir / "d.bin")), "01000200030004000500");
  EXPECT_EQ(
      hex(read_file(dir / "d.idx")),
      "4d4d494449445800000100000000000000080200000000000000030000000000000003000000020000000000"
      "0000000000000600000000000000000000000000000001000000000000000200000000000000");
  EXPECT_EQ(file_count(dir), 2u) << "temporary files are left";
}

TEST(IndexedDataset, ReadsBackEveryDType) {
  const TempFolder dir;
  for (const auto dtype : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f32,
                           DType::f64, DType::u16}) {
    const auto prefix = dir / dtype_name(dtype);
    write(prefix, dtype, {{1, 2, 3}, {}, {100}});
    const auto data = IndexedDataset::open(prefix);
    ASSERT_TRUE(data.ok()) << data.status().message();
    EXPECT_EQ(data->dtype(), dtype);
    EXPECT_EQ(data->document_count(), 3);
    EXPECT_EQ(data->token_count(), 4);
    EXPECT_EQ(sequence(*data, 0), (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(data->length(1), 0);
    EXPECT_EQ(sequence(*data, 2), std::vector<int32_t>{100});
    std::vector<int64_t> tail(2);
    data->read(0, 1, std::span(tail));
    EXPECT_EQ(tail, (std::vector<int64_t>{2, 3}));
  }
}

TEST(IndexedDataset, DocumentsOfSeveralSequencesAndModes) {
  const TempFolder dir;
  auto writer = IndexedDatasetWriter::create(dir / "d", DType::i32, true);
  ASSERT_TRUE(writer.ok());
  const std::vector<int32_t> tokens{1, 2, 3, 4}, lengths{3, 1};
  ASSERT_TRUE(
      writer->add_document(std::span(tokens).first(4), std::span<const int32_t>(lengths)).ok());
  ASSERT_TRUE(writer->add_sequence(std::span<const int32_t>(tokens), 7).ok());
  writer->end_document();
  ASSERT_TRUE(writer->commit().ok());

  const auto data = IndexedDataset::open(dir / "d", true);
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->document_start(1), 2);
  EXPECT_EQ(data->document_start(2), 3);
  EXPECT_EQ(data->mode(0), 0);
  EXPECT_EQ(data->mode(2), 7);

  const auto plain = IndexedDataset::open(dir / "d");
  EXPECT_EQ(
      plain.status().message(),
      text(dir / "d.idx",
           ": damaged index\n  3 bytes follow its last section, as many as a multimodal index "
           "has\n  fix: open it as multimodal"));
}

TEST(IndexedDataset, NothingAppearsWithoutCommit) {
  const TempFolder dir;
  {
    auto writer = IndexedDatasetWriter::create(dir / "d", DType::i32);
    const std::vector<int32_t> tokens(100000, 1);
    ASSERT_TRUE(writer->add_sequence(std::span<const int32_t>(tokens)).ok());
    EXPECT_FALSE(std::filesystem::exists(dir / "d.bin"));
  }
  EXPECT_EQ(file_count(dir), 0u);
}

TEST(IndexedDataset, AnIdThatDoesNotFitIsAnError) {
  const TempFolder dir;
  auto writer = IndexedDatasetWriter::create(dir / "d", DType::u16);
  const std::vector<int32_t> tokens{1, 70000};
  const auto status = writer->add_sequence(std::span<const int32_t>(tokens));
  EXPECT_EQ(status.message(),
            text(dir / "d.bin",
                 ": token id 70000 cannot be stored\n  the dataset's dtype is u16, chosen for the "
                 "tokenizer's vocabulary\n  fix: choose a wider dtype, or correct the tokenizer's "
                 "vocabulary size"));
}

TEST(IndexedDataset, MissingFolderIsAnError) {
  const auto writer = IndexedDatasetWriter::create("/nonexistent/d", DType::u16);
  EXPECT_EQ(
      writer.status().message(),
      "cannot create /nonexistent/d.bin\n  the system says: No such file or directory\n  fix: "
      "correct the path, or create the missing file or folder");
}

// Known fault A7: the documents of the second dataset must be shifted by the first one's sequences.
TEST(IndexedDataset, MergeShiftsDocuments) {
  const TempFolder dir;
  const std::vector<Sequences> first{{{1, 2, 3}, {4, 5}}, {{6}}};
  const std::vector<Sequences> second{{{7}, {8, 9, 10}, {11}}, {}, {{12, 13}}};
  write_documents(dir / "a", DType::u16, first);
  write_documents(dir / "b", DType::u16, second);
  const auto a = IndexedDataset::open(dir / "a"), b = IndexedDataset::open(dir / "b");
  ASSERT_TRUE(a.ok() && b.ok());
  auto writer = IndexedDatasetWriter::create(dir / "ab", DType::u16);
  ASSERT_TRUE(writer->merge(*a).ok());
  ASSERT_TRUE(writer->merge(*b).ok());
  ASSERT_TRUE(writer->commit().ok());

  // As if all documents had been written in a row.
  std::vector<Sequences> all = first;
  all.insert(all.end(), second.begin(), second.end());
  write_documents(dir / "whole", DType::u16, all);
  for (const char* suffix : {".bin", ".idx"})
    EXPECT_EQ(hex(read_file(dir / "ab" + suffix)), hex(read_file(dir / "whole" + suffix)));
  const auto ab = IndexedDataset::open(dir / "ab");
  ASSERT_TRUE(ab.ok()) << ab.status().message();
  const std::vector<int64_t> starts{0, 2, 3, 6, 6, 7};
  ASSERT_EQ(ab->document_count(), 5);
  for (int64_t d = 0; d <= 5; ++d) EXPECT_EQ(ab->document_start(d), starts[static_cast<size_t>(d)]);
}

TEST(IndexedDataset, MergeOfOtherTypesIsAnError) {
  const TempFolder dir;
  write(dir / "a", DType::i32, {{1}});
  const auto a = IndexedDataset::open(dir / "a");
  auto writer = IndexedDatasetWriter::create(dir / "b", DType::u16);
  EXPECT_EQ(
      writer->merge(*a).message(),
      text("cannot merge ", dir / "a.bin", " into ", dir / "b.bin",
           "\n  it holds i32, the result holds u16\n  fix: preprocess both with one tokenizer"));
}

// Known fault A6: byte pointers beyond 2 GiB. The .bin is sparse and takes no space.
TEST(IndexedDataset, PointersPassTwoGiB) {
  const TempFolder dir;
  std::string idx("MMIDIDX\0\0", 9);
  const auto put = [&](auto value) {
    idx.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const int32_t lengths[] = {400000000, 300000000, 5};
  put(uint64_t{1}), put(uint8_t{4}), put(uint64_t{3}), put(uint64_t{4});
  for (const auto n : lengths) put(n);
  put(int64_t{0}), put(int64_t{1600000000}), put(int64_t{2800000000});
  for (int64_t d = 0; d < 4; ++d) put(d);
  test::write_file(dir / "big.idx", idx);
  test::write_file(dir / "big.bin", "");
  std::filesystem::resize_file(dir / "big.bin", 2800000020);

  const auto big = IndexedDataset::open(dir / "big");
  ASSERT_TRUE(big.ok()) << big.status().message();
  EXPECT_EQ(big->pointer(2), 2800000000);
  EXPECT_EQ(sequence(*big, 2), std::vector<int32_t>(5, 0));

  // An index whose pointers wrapped around in 32 bits is refused, not followed.
  const int64_t wrapped = 2800000000 - (int64_t{1} << 32);
  idx.replace(34 + 12 + 16, 8, reinterpret_cast<const char*>(&wrapped), 8);
  test::write_file(dir / "big.idx", idx);
  EXPECT_THAT(std::string(IndexedDataset::open(dir / "big").status().message()),
              HasSubstr("the pointer of sequence 2 is -1494967296; the lengths before it make "
                        "2800000000"));
}

TEST(IndexedDataset, ReadsMegatronsOwnPair) {
  MGT_SHARED_FILE(folder, "/data/megatron-indexed");
  const auto data = IndexedDataset::open(folder + "/test_text_document");
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ(data->document_count(), 1000);
  EXPECT_EQ(data->dtype(), DType::i32);
  for (const int64_t i : {0, 500, 999})
    EXPECT_EQ(sequence(*data, i), (std::vector<int32_t>{111214, 343, 54365900, 77, 131072}));
}

TEST(OptimalTokenDType, FollowsMegatronsThreshold) {
  EXPECT_EQ(optimal_token_dtype(50257), DType::u16);
  EXPECT_EQ(optimal_token_dtype(65499), DType::u16);
  EXPECT_EQ(optimal_token_dtype(65500), DType::i32);
}

}  // namespace
}  // namespace megatron
