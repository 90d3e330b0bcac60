// Known faults A8 and A10: every kind of damage to a pair is one clear error at open.
#include <gmock/gmock.h>

#include <functional>

#include "megatron/indexed_dataset.hpp"
#include "unit/data/support.hpp"

namespace megatron {
namespace {

using test::TempFolder;

// Four sequences in three documents, i32: lengths at 34, pointers at 50, documents at 82, end at
// 114.
class IndexedDamage : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = IndexedDatasetWriter::create(dir_ / "d", DType::i32);
    const std::vector<int32_t> tokens{1, 2, 3};
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(writer->add_sequence(std::span<const int32_t>(tokens)).ok());
      if (i != 1) writer->end_document();
    }
    ASSERT_TRUE(writer->commit().ok());
    idx_ = test::read_file(dir_ / "d.idx");
    bin_ = test::read_file(dir_ / "d.bin");
    ASSERT_EQ(idx_.size(), 114u);
    ASSERT_EQ(bin_.size(), 48u);
  }
  std::string open_idx(const std::string& idx) {
    test::write_file(dir_ / "d.idx", idx);
    return std::string(IndexedDataset::open(dir_ / "d").status().message());
  }
  std::string open_bin(const std::string& bin) {
    test::write_file(dir_ / "d.bin", bin);
    return std::string(IndexedDataset::open(dir_ / "d").status().message());
  }
  template <class T>
  std::string with(size_t offset, T value) const {
    return std::string(idx_).replace(offset, sizeof value, reinterpret_cast<const char*>(&value),
                                     sizeof value);
  }
  std::string message(std::string_view cause, std::string_view action =
                                                  "write the dataset again, or restore both files "
                                                  "from a backup") const {
    return text(dir_ / "d.idx", ": damaged index\n  ", cause, "\n  fix: ", action);
  }
  TempFolder dir_;
  std::string idx_, bin_;
};

TEST_F(IndexedDamage, HeaderFields) {
  EXPECT_EQ(open_idx(idx_), "");
  EXPECT_EQ(
      open_idx(with(0, 'X')),
      message("it does not start with the bytes MMIDIDX of a Megatron index",
              "name the prefix of a pair written by `megatron-host preprocess` or Megatron-LM"));
  EXPECT_EQ(open_idx(with(9, uint64_t{2})),
            message("its version is 2; this reader knows version 1"));
  EXPECT_EQ(open_idx(with(17, uint8_t{0})), message("its dtype code is 0; codes are 1 to 8"));
  EXPECT_EQ(open_idx(with(17, uint8_t{99})), message("its dtype code is 99; codes are 1 to 8"));
  EXPECT_EQ(open_idx(with(18, uint64_t{1} << 60)),
            message("the file ends inside its sequence lengths: the header announces "
                    "1152921504606846976 of 4 bytes, 80 bytes are left of 114"));
  EXPECT_EQ(open_idx(with(18, ~uint64_t{0})),
            message("the file ends inside its sequence lengths: the header announces "
                    "18446744073709551615 of 4 bytes, 80 bytes are left of 114"));
  EXPECT_EQ(open_idx(with(18, uint64_t{3})),
            message("12 bytes follow its last section", "write the dataset again"));
  EXPECT_EQ(open_idx(with(26, uint64_t{1} << 61)),
            message("the file ends inside its document indices: the header announces "
                    "2305843009213693952 of 8 bytes, 32 bytes are left of 114"));
  EXPECT_EQ(open_idx(with(26, uint64_t{3})),
            message("8 bytes follow its last section", "write the dataset again"));
}

TEST_F(IndexedDamage, CutAtEverySectionBorder) {
  const auto cut = [&](size_t size) { return open_idx(idx_.substr(0, size)); };
  EXPECT_EQ(cut(0), message("the file is empty"));
  for (const size_t size : {9, 17, 18, 26, 33}) {
    EXPECT_EQ(cut(size), message(text("the file ends inside its header: it has ", size,
                                      " bytes, the header needs 34")));
  }
  EXPECT_EQ(cut(34), message("the file ends inside its sequence lengths: the header announces 4 of "
                             "4 bytes, 0 bytes are left of 34"));
  EXPECT_EQ(cut(50),
            message("the file ends inside its sequence pointers: the header announces 4 of "
                    "8 bytes, 0 bytes are left of 50"));
  EXPECT_EQ(cut(82), message("the file ends inside its document indices: the header announces 4 of "
                             "8 bytes, 0 bytes are left of 82"));
  EXPECT_EQ(cut(113),
            message("the file ends inside its document indices: the header announces 4 of "
                    "8 bytes, 31 bytes are left of 113"));
  EXPECT_EQ(open_idx(idx_ + "x"),
            message("1 bytes follow its last section", "write the dataset again"));
}

TEST_F(IndexedDamage, Sections) {
  EXPECT_EQ(open_idx(with(34, int32_t{-1})), message("the length of sequence 0 is -1"));
  EXPECT_EQ(open_idx(with(50, int64_t{4})),
            message("the pointer of sequence 0 is 4; the lengths before it make 0"));
  EXPECT_EQ(open_idx(with(58, int64_t{13})),
            message("the pointer of sequence 1 is 13; the lengths before it make 12"));
  EXPECT_EQ(open_idx(with(82, int64_t{1})), message("document 0 starts at sequence 1, not 0"));
  EXPECT_EQ(open_idx(with(90, int64_t{4})), message("document index 2 is 3, below 4 before it"));
  EXPECT_EQ(open_idx(with(90, int64_t{-5})), message("document index 1 is -5, below 0 before it"));
  EXPECT_EQ(open_idx(with(106, int64_t{3})), message("the documents end at sequence 3 of 4"));
  EXPECT_EQ(open_idx(with(106, int64_t{1} << 60)),
            message("the documents end at sequence 1152921504606846976 of 4"));
}

TEST_F(IndexedDamage, NoDocumentAtAll) {
  std::string idx = idx_.substr(0, 34);
  for (size_t i = 18; i < 34; ++i) idx[i] = 0;
  EXPECT_EQ(open_idx(idx), message("it has no document indices; at least the end is needed"));
}

TEST_F(IndexedDamage, BinOfAnotherSize) {
  const auto expected = [&](std::string_view what, size_t size) {
    return text(
        dir_ / "d.bin", ": ", what, " than its index says\n  the file has ", size, " bytes, ",
        dir_ / "d.idx",
        " describes 48 (12 tokens of i32)\n  fix: copy both files again from one source, or "
        "write the dataset again");
  };
  for (const size_t size : {47, 24, 0})
    EXPECT_EQ(open_bin(bin_.substr(0, size)), expected("shorter", size));
  EXPECT_EQ(open_bin(bin_ + "x"), expected("longer", 49));
}

TEST_F(IndexedDamage, MissingFiles) {
  std::filesystem::remove(dir_ / "d.bin");
  EXPECT_EQ(
      IndexedDataset::open(dir_ / "d").status().message(),
      text("cannot open ", dir_ / "d.bin",
           "\n  the system says: No such file or directory\n  fix: correct the path, or create "
           "the missing file or folder"));
  EXPECT_EQ(IndexedDataset::open(dir_ / "e").status().code(), Code::not_found);
}

// Random damage of Megatron's own 20,042-byte index: an error or a readable dataset, never a crash.
TEST_F(IndexedDamage, RandomDamageOfARealIndex) {
  MGT_SHARED_FILE(folder, "/data/megatron-indexed");
  const auto real = test::read_file(folder + "/test_text_document.idx");
  std::filesystem::copy(folder + "/test_text_document.bin", dir_ / "r.bin");
  uint64_t state = 1;
  const auto draw = [&] {
    return state = state * 6364136223846793005 + 1442695040888963407, state >> 33;
  };
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    auto idx = real;
    if (i % 4 == 0) idx.resize(draw() % idx.size());
    for (uint64_t k = draw() % 3; k-- > 0 && !idx.empty();)
      idx[draw() % (i % 2 ? std::min<size_t>(idx.size(), 64) : idx.size())] =
          static_cast<char>(draw());
    test::write_file(dir_ / "r.idx", idx);
    const auto data = IndexedDataset::open(dir_ / "r");
    if (!data.ok()) {
      ++refused;
      continue;
    }
    for (int64_t s = 0; s < data->sequence_count(); ++s) {
      std::vector<int32_t> tokens(static_cast<size_t>(data->length(s)));
      data->read(s, 0, std::span(tokens));
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace megatron
