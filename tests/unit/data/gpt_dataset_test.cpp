// The dataset plugin's class: samples, fields, masks by position, and its errors.
#include "plugins/datasets/megatron_gpt/gpt_dataset.hpp"

#include <gmock/gmock.h>

#include <thread>

#include "plugins/tokenizers/byte/byte_tokenizer.hpp"
#include "plugins/tokenizers/null/null_tokenizer.hpp"
#include "unit/data/support.hpp"

namespace megatron::gpt {
namespace {

using test::TempFolder;
using test::thrown;
using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<int32_t>;
using Given = std::map<std::string, std::string>;

struct Sample {
  Ids tokens, labels, positions;
  std::vector<float> mask;
};

class GptDatasetTest : public testing::Test {
 protected:
  void write(const std::vector<Ids>& documents, DType dtype = DType::i32) {
    auto writer = IndexedDatasetWriter::create(prefix_, dtype);
    for (const auto& d : documents) {
      ASSERT_TRUE(writer->add_sequence(std::span<const int32_t>(d)).ok());
      writer->end_document();
    }
    ASSERT_TRUE(writer->commit().ok());
  }
  GptDataset make(int64_t sequence, Given given = {}) {
    given.emplace("data_path", prefix_);
    given.emplace("split", "\"1\"");
    if (request_.fields.empty()) {
      for (const auto* name : {"tokens", "labels", "loss_mask", "position_ids"}) {
        const bool mask = std::string_view(name) == "loss_mask";
        request_.fields.push_back({name, mask ? DType::f32 : DType::i32, {sequence}});
      }
    }
    request_.host = host_;
    const test::TestConfig config(kOptions, given);
    return GptDataset(config, request_);
  }
  static Sample read(const GptDataset& data, int64_t index, size_t sequence) {
    Sample s{Ids(sequence), Ids(sequence), Ids(sequence), std::vector<float>(sequence)};
    void* buffers[] = {s.tokens.data(), s.labels.data(), s.mask.data(), s.positions.data()};
    data.read(index, buffers);
    return s;
  }
  TempFolder dir_;
  const std::string prefix_ = dir_ / "d";
  test::TestHost host_;
  test::OwnedTokenizer<null::NullTokenizer> tokenizer_{null::kOptions, {{"vocab_size", "99"}}};
  DatasetRequest request_{Host(), "train", 0, 1234, dir_ / "cache", std::nullopt, {}};
};

// The documents of the reference vector hold 0, 1, 2, … across documents, so a sample shows its
// place.
TEST_F(GptDatasetTest, ServesTheReferenceOrder) {
  std::vector<Ids> documents;
  int32_t next = 0;
  for (const int n : {5, 3, 7, 4, 6}) {
    documents.emplace_back();
    for (int i = 0; i < n; ++i) documents.back().push_back(next++);
  }
  write(documents, DType::u16);
  const auto data = make(4);
  ASSERT_EQ(data.size(), 6);
  // Document order 4 0 1 2 3: the stream is 19..24, 0..18. Shuffle: 5 2 3 1 0 4.
  Ids stream;
  for (const int d : {4, 0, 1, 2, 3})
    stream.insert(stream.end(), documents[static_cast<size_t>(d)].begin(),
                  documents[static_cast<size_t>(d)].end());
  const int64_t shuffle[] = {5, 2, 3, 1, 0, 4};
  for (int64_t i = 0; i < 6; ++i) {
    const auto s = read(data, i, 4);
    const auto at = stream.begin() + shuffle[i] * 4;
    EXPECT_EQ(s.tokens, Ids(at, at + 4));
    EXPECT_EQ(s.labels, Ids(at + 1, at + 5));
    EXPECT_THAT(s.mask, ElementsAre(1, 1, 1, 1));
    EXPECT_THAT(s.positions, ElementsAre(0, 1, 2, 3));
  }
  EXPECT_EQ(thrown([&] { read(data, 6, 4); }),
            "sample 6 does not exist\n  the dataset has 6\n  fix: ask for one below that");
}

TEST_F(GptDatasetTest, EpochsFillTheRequest) {
  write({{1, 2, 3, 4, 5},
         {6, 7, 8},
         {9, 10, 11, 12, 13, 14, 15},
         {16, 17, 18, 19},
         {20, 21, 22, 23, 24, 25}});
  request_.num_samples = 13;
  const auto data = make(4);
  EXPECT_EQ(data.size(), 18);
  EXPECT_EQ(read(data, 0, 4).tokens, read(make(4), 0, 4).tokens) << "from the cache";
  EXPECT_EQ(host_.log(), "");
}

// Known fault C23.
TEST_F(GptDatasetTest, DocumentReset) {
  write({{10, 11, 99, 20, 21}});
  request_.tokenizer = tokenizer_.view();
  auto s = read(make(4, {{"reset_position_ids", "true"}}), 0, 4);
  EXPECT_THAT(s.tokens, ElementsAre(10, 11, 99, 20));
  EXPECT_THAT(s.labels, ElementsAre(11, 99, 20, 21));
  EXPECT_THAT(s.positions, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(s.mask, ElementsAre(1, 1, 1, 1));
  s = read(make(4, {{"eod_mask_loss", "true"}}), 0, 4);
  EXPECT_THAT(s.positions, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(s.mask, ElementsAre(1, 1, 0, 1));
}

// Known faults C21 and C22: the padded tail is masked by position; an id that equals what the tail
// is filled with (0), or the end of document, stays and counts; masks do not leak into the next
// sample.
TEST_F(GptDatasetTest, PaddingIsMaskedByPosition) {
  write({{7, 0, 99, 0, 5, 6, 0}});
  request_.split = "valid";
  const auto data =
      make(4, {{"split", "\"0,1\""}, {"drop_last_partial_validation_sequence", "false"}});
  ASSERT_EQ(data.size(), 2);
  for (const int64_t index : {0, 1, 0, 1}) {
    const auto s = read(data, index, 4);
    if (s.tokens[0] == 7) {
      EXPECT_THAT(s.tokens, ElementsAre(7, 0, 99, 0));
      EXPECT_THAT(s.labels, ElementsAre(0, 99, 0, 5));
      EXPECT_THAT(s.mask, ElementsAre(1, 1, 1, 1));
    } else {
      EXPECT_THAT(s.tokens, ElementsAre(5, 6, 0, 0));
      EXPECT_THAT(s.labels, ElementsAre(6, 0, 0, 0));
      EXPECT_THAT(s.mask, ElementsAre(1, 1, 0, 0));
    }
  }
}

TEST_F(GptDatasetTest, WithoutExtraTokenTheLastPositionHasNoLabel) {
  write({{1, 2, 3, 4, 5, 6, 7, 8}});
  const auto data = make(4, {{"add_extra_token_to_sequence", "false"}});
  ASSERT_EQ(data.size(), 2);
  const auto s = read(data, 0, 4);
  EXPECT_THAT(s.mask, ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(s.labels[0], s.tokens[0] + 1);
  EXPECT_EQ(s.labels[3], 0);
}

TEST_F(GptDatasetTest, AnyFieldsInAnyOrder) {
  write({{1, 2, 3, 4, 5}});
  request_.fields = {{"labels", DType::i32, {4}}, {"tokens", DType::i32, {4}}};
  const auto data = make(4);
  Ids labels(4), tokens(4);
  void* buffers[] = {labels.data(), tokens.data()};
  data.read(0, buffers);
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(labels, ElementsAre(2, 3, 4, 5));
}

TEST_F(GptDatasetTest, ThreadsReadTheSame) {
  std::vector<Ids> documents;
  for (int32_t d = 0; d < 50; ++d) documents.emplace_back(static_cast<size_t>(d % 13), d);
  write(documents);
  const auto data = make(16);
  std::vector<Sample> expected;
  for (int64_t i = 0; i < data.size(); ++i) expected.push_back(read(data, i, 16));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 20 * data.size(); ++i)
        wrong += read(data, i % data.size(), 16).tokens !=
                 expected[static_cast<size_t>(i % data.size())].tokens;
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(GptDatasetTest, IdsOutsideTheVocabularyAreAnError) {
  write({{1, 2, 100, 4, 5}});
  request_.tokenizer = tokenizer_.view();
  const auto data = make(4);
  EXPECT_EQ(thrown([&] { read(data, 0, 4); }),
            text(prefix_,
                 ".bin: token 2 of sequence 0 is not an id of the tokenizer\n  it is 100, "
                 "the tokenizer has 100 ids\n  fix: name the tokenizer that wrote the data"));
}

TEST_F(GptDatasetTest, SixtyFourBitIdsThatDoNotFitAreAnError) {
  auto writer = IndexedDatasetWriter::create(prefix_, DType::i64);
  const std::vector<int64_t> ids{1, 2, 3, int64_t{1} << 40, 5};
  ASSERT_TRUE(writer->add_sequence(std::span<const int64_t>(ids)).ok());
  writer->end_document();
  ASSERT_TRUE(writer->commit().ok());
  const auto data = make(4);
  EXPECT_THAT(thrown([&] { read(data, 0, 4); }),
              HasSubstr("token 3 of sequence 0 is not an id of the tokenizer\n  it is negative or "
                        "above 2147483647\n"));
}

TEST_F(GptDatasetTest, FieldErrors) {
  write({{1, 2, 3, 4, 5}});
  const auto error = [&](std::vector<FieldRequest> fields) {
    request_.fields = std::move(fields);
    return thrown([&] { make(4); });
  };
  EXPECT_EQ(
      error({{"tokens", DType::i32, {4}}, {"attention_mask", DType::i32, {4}}}),
      "the model reads field 'attention_mask', which dataset 'megatron_gpt' does not offer\n  "
      "it offers: tokens, labels, loss_mask, position_ids\n  fix: choose a dataset that fits "
      "the model, or rename the input");
  EXPECT_EQ(
      error({{"tokens", DType::i64, {4, 2}}}),
      "the model reads field 'tokens' as i64 [4, 2]\n  dataset 'megatron_gpt' offers it as i32 "
      "[sequence]\n  fix: declare the input with that type and one dimension");
  EXPECT_EQ(
      error({{"tokens", DType::i32, {4}}, {"labels", DType::i32, {5}}}),
      "the model reads field 'labels' with 5 positions\n  field 'tokens' has 4\n  fix: give all "
      "fields of a sample the same sequence length");
  EXPECT_THAT(thrown([] { value_or_throw(CausalFields::make({}, "x")); }),
              HasSubstr("dataset 'x' is asked for no field\n"));
}

TEST_F(GptDatasetTest, OptionErrors) {
  write({{1, 2, 3, 4, 5}});
  const auto error = [&](const Given& given) { return thrown([&] { make(4, given); }); };
  EXPECT_EQ(
      error({{"eod_mask_loss", "true"}}),
      "eod_mask_loss = true needs the end-of-document id\n  the experiment has no tokenizer\n  "
      "fix: name the tokenizer that wrote the data, or set eod_mask_loss = false");
  EXPECT_EQ(error({{"data_path", prefix_ + ".bin"}}),
            text("data_path = \"", prefix_,
                 ".bin\" names no dataset\n  it names one file of the "
                 "pair; ",
                 prefix_,
                 ".bin.idx does not exist\n  fix: leave out the extension: "
                 "data_path = \"",
                 prefix_, "\""));
  EXPECT_EQ(
      error({{"data_path", "0.3 a 0.7 b"}}),
      "data_path = \"0.3 a 0.7 b\" names no dataset\n  0.3 a 0.7 b.idx does not exist, and a "
      "blend of several datasets is not supported yet\n  fix: give one prefix; merge datasets "
      "beforehand to train on several");
  EXPECT_EQ(
      error({{"data_path", ""}}),
      "data_path is empty\n  it must name a dataset\n  fix: give the common prefix of its .bin and "
      ".idx file");
  EXPECT_EQ(
      error({{"data_path", "/none"}}),
      "data_path = \"/none\" names no dataset\n  /none.idx does not exist\n  fix: correct the "
      "prefix, or write the dataset with `megatron-host preprocess`");
}

TEST_F(GptDatasetTest, DataErrors) {
  write({{1, 2, 3}, {4, 5}});
  EXPECT_EQ(thrown([&] { make(8); }),
            text("the split is too small for one sample\n  its 2 sequences have 5 tokens together, "
                 "one sample needs 9\n  fix: use more data, a larger share in split, or a shorter "
                 "sequence length\n  while preparing split 'train' of ",
                 prefix_, ".idx"));
  request_.split = "test";
  EXPECT_EQ(
      thrown([&] {
        make(4, {{"split", "\"969,30,1\""}});
      }),
      text("the split has no sequence\n  its share of 2 sequences rounds to none\n  fix: give "
           "it a larger weight in split, or use more data\n  while preparing split 'test' of ",
           prefix_, ".idx"));
  request_.split = "train";
  request_.seed = uint64_t{1} << 32;
  EXPECT_EQ(
      thrown([&] { make(4); }),
      "seed 4294967296 is too large for dataset 'megatron_gpt'\n  its shuffles follow NumPy's "
      "RandomState, which takes 32 bits\n  fix: choose a seed below 4294967296");
  request_.seed = 1;
  write({{1, 2, 3, 4, 5}}, DType::f32);
  EXPECT_EQ(thrown([&] { make(4); }),
            text(prefix_,
                 ".idx: holds f32 values\n  token ids are integers\n  fix: name a dataset "
                 "that holds token ids"));
}

TEST_F(GptDatasetTest, CacheLiesBesideTheDataByDefault) {
  write({{1, 2, 3, 4, 5}});
  request_.cache_dir.clear();
  make(4);
  EXPECT_TRUE(std::filesystem::is_directory(dir_ / "cache/megatron_gpt"));
}

TEST_F(GptDatasetTest, ReadsMegatronsOwnPair) {
  MGT_SHARED_FILE(folder, "/data/megatron-indexed");
  request_.split = "valid";
  const auto data =
      make(64, {{"data_path", folder + "/test_text_document"}, {"split", "\"969,30,1\""}});
  EXPECT_EQ(data.size(), (30 * 5 - 1) / 64);
  const auto s = read(data, 0, 64);
  const Ids document{111214, 343, 54365900, 77, 131072};
  for (size_t i = 1; i < 64; ++i) {
    EXPECT_EQ(s.labels[i - 1], s.tokens[i]);
    EXPECT_THAT(document, testing::Contains(s.tokens[i]));
  }
}

}  // namespace
}  // namespace megatron::gpt
