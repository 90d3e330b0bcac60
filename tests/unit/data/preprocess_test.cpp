// From text to datasets: Megatron's own files byte for byte, and every way an input can be wrong.
#include "data/preprocess.hpp"

#include <gmock/gmock.h>

#include "megatron/indexed_dataset.hpp"
#include "plugins/tokenizers/byte/byte_tokenizer.hpp"
#include "plugins/tokenizers/null/null_tokenizer.hpp"
#include "unit/data/support.hpp"

namespace megatron::data {
namespace {

using test::read_file;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

class Preprocess : public testing::Test {
 protected:
  std::string input(std::string_view contents) {
    return test::write_file(dir_ / "in.jsonl", contents);
  }
  // Its error, with nothing but the input left behind; "" is success.
  std::string error(std::string_view contents) {
    options_.inputs = {input(contents)};
    const auto result = preprocess(options_, bytes_.view());
    if (!result.ok()) {
      EXPECT_EQ(file_count(dir_), 1u);
    }
    return std::string(result.status().message());
  }
  Result<PreprocessReport> run(std::string_view contents) {
    options_.inputs = {input(contents)};
    return preprocess(options_, bytes_.view());
  }
  std::vector<std::string> documents(std::string_view key = "text") {
    const auto data = IndexedDataset::open(text(dir_ / "out", "_", key, "_document"));
    EXPECT_TRUE(data.ok()) << data.status().message();
    std::vector<std::string> out;
    for (int64_t d = 0; d < data->document_count(); ++d) {
      EXPECT_EQ(data->document_start(d), d);
      std::vector<int32_t> ids(static_cast<size_t>(data->length(d)));
      data->read(d, 0, std::span(ids));
      out.emplace_back();
      for (const auto id : ids) out.back() += id == 256 ? '$' : static_cast<char>(id);
    }
    return out;
  }
  TempFolder dir_;
  test::OwnedTokenizer<byte::ByteTokenizer> bytes_{{}, {}};
  PreprocessOptions options_{.inputs = {}, .output_prefix = dir_ / "out"};
};

TEST_F(Preprocess, ReproducesMegatronsFiles) {
  MGT_SHARED_FILE(folder, "/data/megatron-indexed");
  const test::OwnedTokenizer<null::NullTokenizer> tokenizer(null::kOptions,
                                                            {{"vocab_size", "131072"}});
  options_.inputs = {folder + "/test.jsonl"};
  options_.append_eod = true;
  options_.foreign_ids = true;
  const auto report = preprocess(options_, tokenizer.view());
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->datasets[0].documents, 1000);
  EXPECT_EQ(report->datasets[0].tokens, 5000);
  EXPECT_EQ(report->dtype, DType::i32);
  EXPECT_EQ(report->bytes, 35000);
  for (const auto* extension : {".bin", ".idx"}) {
    EXPECT_TRUE(read_file(dir_ / "out_text_document" + extension) ==
                read_file(folder + "/test_text_document" + extension))
        << extension;
  }
}

// Known fault A1: empty documents anywhere.
TEST_F(Preprocess, EmptyDocumentsAreSkipped) {
  options_.append_eod = true;
  const auto report = run(
      "{\"text\":\"\"}\n{\"text\":\"a\"}\n\n{\"text\":\"\"}\n{\"text\":\"bc\"}\n{\"text\":\"\"}\n");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(documents(), ElementsAre("a$", "bc$"));
  EXPECT_EQ(report->datasets[0].documents, 2);
  EXPECT_EQ(report->datasets[0].empty_documents, 3);
}

TEST_F(Preprocess, NothingButEmptyDocumentsIsAnError) {
  options_.append_eod = true;
  EXPECT_EQ(
      error("{\"text\":\"\"}\n{\"text\":\"\"}\n"),
      text("no document for ", dir_ / "out_text_document",
           "\n  the input has 2 empty documents and 0 bad records, none with text\n  fix: look "
           "at key 'text' in ",
           dir_ / "in.jsonl"));
  EXPECT_THAT(error(""), HasSubstr("no document for "));
}

// Known fault A2: the end of document is in the lengths.
TEST_F(Preprocess, EndOfDocumentCounts) {
  options_.append_eod = true;
  ASSERT_TRUE(run("{\"text\":\"a\"}\n{\"text\":\"bc\"}\n{\"text\":\"def\"}\n").ok());
  EXPECT_THAT(documents(), ElementsAre("a$", "bc$", "def$"));
  EXPECT_EQ(std::filesystem::file_size(dir_ / "out_text_document.bin"), (2u + 3 + 4) * 2);
}

// Known fault A3.
TEST_F(Preprocess, MissingKeyNamesLineAndKeys) {
  EXPECT_EQ(
      error("{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"title\":\"c\",\"id\":1}\n"),
      text(dir_ / "in.jsonl",
           ":3: no key 'text'\n  the object has: id, title\n  fix: name a key that every line "
           "has, or skip bad records"));
  EXPECT_THAT(error("{}"), HasSubstr("the object is empty"));
}

// Known fault A4: valid JSON that is no object, keys inside strings and inside other objects.
TEST_F(Preprocess, LinesThatAreNoRecords) {
  const auto at_line_2 = [&](std::string_view line) {
    return error(text("{\"text\":\"a\"}\n", line));
  };
  const auto not_object = [&](std::string_view what) {
    return text(dir_ / "in.jsonl", ":2: not a JSON object\n  the line is ", what,
                "\n  fix: write one JSON object a line, or skip bad records");
  };
  EXPECT_EQ(at_line_2("\"context\""), not_object("a string"));
  EXPECT_EQ(at_line_2("[\"text\"]"), not_object("an array"));
  EXPECT_EQ(at_line_2("[{\"text\":\"a\"}]"), not_object("an array"));
  EXPECT_EQ(at_line_2("42"), not_object("a number"));
  EXPECT_EQ(at_line_2("null"), not_object("null"));
  EXPECT_THAT(at_line_2("{\"a\":{\"text\":\"b\"}}"), HasSubstr(":2: no key 'text'\n"));
  EXPECT_EQ(at_line_2("{\"text\":7}"),
            text(dir_ / "in.jsonl",
                 ":2: key 'text' holds no text\n  its value is a number\n  fix: "
                 "name a key with a string, or skip bad records"));
  EXPECT_THAT(at_line_2("{\"text\":[\"a\"]}"), HasSubstr("its value is an array"));
  EXPECT_THAT(at_line_2("{\"text\":{\"text\":\"a\"}}"), HasSubstr("its value is an object"));
}

TEST_F(Preprocess, BadJsonNamesLineAndColumn) {
  EXPECT_EQ(
      error("{\"text\":\"a\"}\n{\"text\": oops}\n"),
      text(dir_ / "in.jsonl",
           ":2: not valid JSON\n  column 10: syntax error while parsing value - invalid literal; "
           "last read: '\"text\": o'\n  fix: write one JSON object a line, or skip bad records"));
  EXPECT_THAT(error("{\"text\":\"\xFF\"}"), HasSubstr("in.jsonl:1: not valid JSON\n"));
  EXPECT_THAT(error("{\"text\":\"a\"} x"), HasSubstr("in.jsonl:1: not valid JSON\n"));
  EXPECT_THAT(error("{\"text\":\"a\"\n}"), HasSubstr("in.jsonl:1: not valid JSON\n"));
}

TEST_F(Preprocess, BadRecordsAreCountedWhenAsked) {
  options_.skip_bad_records = true;
  const auto report = run("42\n{\"text\":\"a\"}\n{\"tex\":\"b\"}\n{oops\n{\"text\":\"c\"}\n");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->bad_records, 3);
  EXPECT_THAT(documents(), ElementsAre("a", "c"));
  options_.overwrite = true;
  EXPECT_THAT(std::string(run("42\n").status().message()),
              HasSubstr("0 empty documents and 1 bad records"));
}

TEST_F(Preprocess, JsonTextIsDecoded) {
  ASSERT_TRUE(run("{\"id\":[1,{\"text\":\"x\"}],\"text\":\"a\\n\\u00e9\\ud83d\\ude80\\\"\","
                  "\"more\":{\"text\":\"y\"}}\r\n{\"text\":\"1\",\"text\":\"2\"}")
                  .ok());
  EXPECT_THAT(documents(), ElementsAre("a\n\u00e9\U0001F680\"", "2"));
}

TEST_F(Preprocess, SeveralKeysMakeSeveralDatasets) {
  options_.json_keys = {"question", "answer"};
  const auto report =
      run("{\"answer\":\"1\",\"question\":\"a\"}\n{\"answer\":\"\",\"question\":\"b\"}\n");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_THAT(documents("question"), ElementsAre("a", "b"));
  EXPECT_THAT(documents("answer"), ElementsAre("1"));
  EXPECT_EQ(report->datasets[1].prefix, dir_ / "out_answer_document");
}

TEST_F(Preprocess, SeveralInputsInOrder) {
  const auto a = test::write_file(dir_ / "a", "{\"text\":\"1\"}\n{\"text\":\"2\"}");
  const auto b = test::write_file(dir_ / "b", "{\"text\":\"3\"}\n");
  options_.inputs = {b, a, b};
  ASSERT_TRUE(preprocess(options_, bytes_.view()).ok());
  EXPECT_THAT(documents(), ElementsAre("3", "1", "2", "3"));
}

TEST_F(Preprocess, PlainText) {
  options_.format = InputFormat::text;
  options_.overwrite = true;
  const std::string contents = "one\ntwo\n\nthree\n";
  ASSERT_TRUE(run(contents).ok());
  EXPECT_THAT(documents(), ElementsAre(contents));
  options_.document = RecordKind::line;
  ASSERT_TRUE(run(contents).ok());
  EXPECT_THAT(documents(), ElementsAre("one", "two", "three"));
  options_.document = RecordKind::paragraph;
  ASSERT_TRUE(run(contents).ok());
  EXPECT_THAT(documents(), ElementsAre("one\ntwo", "three"));
}

TEST_F(Preprocess, DTypeFollowsTheVocabulary) {
  options_.overwrite = true;
  const auto dtype = [&](const char* vocab) {
    const test::OwnedTokenizer<null::NullTokenizer> t(null::kOptions, {{"vocab_size", vocab}});
    options_.inputs = {input("{\"text\":\"1\"}")};
    const auto report = preprocess(options_, t.view());
    EXPECT_EQ(IndexedDataset::open(dir_ / "out_text_document")->dtype(), report->dtype);
    return report->dtype;
  };
  EXPECT_EQ(dtype("65498"), DType::u16);  // 65,499 ids with the end of document
  EXPECT_EQ(dtype("65499"), DType::i32);
  options_.dtype = DType::i64;
  EXPECT_EQ(dtype("10"), DType::i64);
}

// The order is the input's for any number of threads, over many batches.
TEST_F(Preprocess, ThreadsKeepTheOrder) {
  std::string contents;
  for (int i = 0; i < 60000; ++i)
    contents +=
        text("{\"text\":\"document ", i, std::string(static_cast<size_t>(i % 97), 'x'), "\"}\n");
  options_.append_eod = true;
  options_.overwrite = true;
  options_.workers = 1;
  PreprocessProgress last;
  int calls = 0;
  options_.inputs = {input(contents)};
  const auto report = preprocess(options_, bytes_.view(), [&](const PreprocessProgress& p) {
    EXPECT_GT(p.bytes_done, last.bytes_done);
    EXPECT_GE(p.documents, last.documents);
    last = p;
    ++calls;
  });
  ASSERT_TRUE(report.ok());
  EXPECT_GT(calls, 3);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  EXPECT_EQ(last.bytes_total, static_cast<int64_t>(contents.size()));
  EXPECT_EQ(last.documents, 60000);
  EXPECT_EQ(last.tokens, report->datasets[0].tokens);
  const auto bin = read_file(dir_ / "out_text_document.bin");
  const auto idx = read_file(dir_ / "out_text_document.idx");
  for (const unsigned workers : {2u, 7u}) {
    options_.workers = workers;
    ASSERT_TRUE(preprocess(options_, bytes_.view()).ok());
    EXPECT_TRUE(read_file(dir_ / "out_text_document.bin") == bin);
    EXPECT_TRUE(read_file(dir_ / "out_text_document.idx") == idx);
  }
}

// The first bad line of the file is named, though a later batch may fail earlier.
TEST_F(Preprocess, TheFirstErrorIsReported) {
  std::string contents;
  for (int i = 1; i <= 60000; ++i)
    contents +=
        i == 30000 || i >= 59000 ? "{}\n" : text("{\"text\":\"document number ", i, "\"}\n");
  options_.workers = 4;
  EXPECT_THAT(error(contents), HasSubstr("in.jsonl:30000: no key 'text'"));
}

TEST_F(Preprocess, TokenizerErrorsNameTheLine) {
  const test::OwnedTokenizer<null::NullTokenizer> tokenizer(null::kOptions, {{"vocab_size", "10"}});
  options_.inputs = {input("{\"text\":\"1\"}\n{\"text\":\"x\"}\n")};
  EXPECT_THAT(std::string(preprocess(options_, tokenizer.view()).status().message()),
              testing::AllOf(HasSubstr("tokenizer 'null' cannot read 'x'"),
                             HasSubstr(text("\n  while encoding ", dir_ / "in.jsonl", ":2"))));
}

TEST_F(Preprocess, IdsBeyondTheVocabularyAreAnError) {
  const test::OwnedTokenizer<null::NullTokenizer> tokenizer(null::kOptions,
                                                            {{"vocab_size", "100"}});
  options_.inputs = {input("{\"text\":\"1 100\"}\n{\"text\":\"1 101 3\"}\n")};
  const Status status = preprocess(options_, tokenizer.view()).status();
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_EQ(status.message(),
            text(dir_ / "in.jsonl",
                 ":2: the tokenizer made id 101 of the text\n  its vocabulary has the ids 0 to "
                 "100\n  fix: choose the tokenizer and the options that belong to this text; "
                 "--foreign-ids takes such ids"));
  EXPECT_EQ(file_count(dir_), 1u);
  options_.foreign_ids = true;
  EXPECT_TRUE(preprocess(options_, tokenizer.view()).ok());
}

TEST_F(Preprocess, IdsBeyondTheDTypeAreAnError) {
  const test::OwnedTokenizer<null::NullTokenizer> tokenizer(null::kOptions, {{"vocab_size", "10"}});
  options_.inputs = {input("{\"text\":\"70000\"}\n")};
  options_.foreign_ids = true;
  EXPECT_THAT(std::string(preprocess(options_, tokenizer.view()).status().message()),
              HasSubstr("token id 70000 cannot be stored\n"));
  EXPECT_EQ(file_count(dir_), 1u);
}

// Tokenizers are foreign code: their tables may contradict each other.
struct Contradictory : Tokenizer {
  Contradictory(const Host&, const Config&) {}
  int64_t vocab_size() const override { return 10; }
  SpecialTokens special_tokens() const override { return {.eod = 10}; }
  void encode(std::string_view, std::vector<int32_t>& ids) const override { ids.push_back(-1); }
  void decode(std::span<const int32_t>, std::string&) const override {}
};

TEST_F(Preprocess, ATokenizersPromisesAreChecked) {
  Contradictory tokenizer{Host(nullptr), Config(nullptr)};
  const TokenizerView view(tokenizer_table<Contradictory>(), &tokenizer);
  options_.inputs = {input("{\"text\":\"x\"}\n")};
  EXPECT_THAT(std::string(preprocess(options_, view).status().message()),
              HasSubstr("the tokenizer made id -1 of the text\n"));
  options_.append_eod = true;
  EXPECT_THAT(std::string(preprocess(options_, view).status().message()),
              HasSubstr("the tokenizer's end-of-document id is 10\n"));
}

// The text is at fault as bad JSON is; what is not the text's fault is not skipped with it.
TEST_F(Preprocess, TokenizerErrorsByTheirKind) {
  struct Refusing : Contradictory {
    using Contradictory::Contradictory;
    void encode(std::string_view, std::vector<int32_t>&) const override {
      throw StatusError(Status::error(code, "refused", "by the test", "none"));
    }
    Code code = Code::unknown;
  };
  Refusing tokenizer{Host(nullptr), Config(nullptr)};
  const TokenizerView view(tokenizer_table<Refusing>(), &tokenizer);
  options_.inputs = {input("{\"text\":\"x\"}\n")};
  for (const bool skip : {false, true}) {
    options_.skip_bad_records = skip;
    for (const Code code : {Code::invalid_argument, Code::out_of_range, Code::data_loss}) {
      tokenizer.code = code;
      const Status status = preprocess(options_, view).status();
      EXPECT_EQ(status.code(), skip ? Code::failed_precondition : Code::data_loss);
      EXPECT_THAT(std::string(status.message()), HasSubstr(skip ? "1 bad records" : "in.jsonl:1"));
    }
    tokenizer.code = Code::resource_exhausted;
    EXPECT_EQ(preprocess(options_, view).status().code(), Code::resource_exhausted);
  }
}

TEST_F(Preprocess, ExistingDatasetIsKept) {
  ASSERT_TRUE(run("{\"text\":\"a\"}").ok());
  EXPECT_EQ(run("{\"text\":\"b\"}").status().message(),
            text(dir_ / "out_text_document.idx",
                 " exists already\n  preprocess does not replace a dataset unasked\n  fix: choose "
                 "another output prefix, delete the dataset, or ask to overwrite"));
  EXPECT_THAT(documents(), ElementsAre("a"));
  std::filesystem::rename(dir_ / "out_text_document.idx", dir_ / "idx");
  EXPECT_THAT(std::string(run("{\"text\":\"b\"}").status().message()),
              HasSubstr("out_text_document.bin exists already\n"));
  std::filesystem::rename(dir_ / "idx", dir_ / "out_text_document.idx");
  EXPECT_THAT(documents(), ElementsAre("a"));
  options_.overwrite = true;
  EXPECT_FALSE(run("{oops").ok());
  EXPECT_THAT(documents(), ElementsAre("a")) << "a failed run replaces nothing";
  ASSERT_TRUE(run("{\"text\":\"b\"}").ok());
  EXPECT_THAT(documents(), ElementsAre("b"));
}

// Whatever the two paths look like.
TEST_F(Preprocess, DoesNotReplaceItsInput) {
  const std::string path = test::write_file(dir_ / "out_text_document.bin", "{\"text\":\"a\"}\n");
  std::filesystem::create_symlink(path, dir_ / "link");
  options_.inputs = {dir_ / "link"};
  options_.overwrite = true;
  EXPECT_EQ(preprocess(options_, bytes_.view()).status().message(),
            text(dir_ / "link", " is read and would be replaced\n  the dataset's name is ", path,
                 "\n  fix: choose another output prefix"));
  EXPECT_EQ(test::read_file(path), "{\"text\":\"a\"}\n");
}

TEST_F(Preprocess, OptionErrors) {
  const auto status = [&] {
    return std::string(preprocess(options_, bytes_.view()).status().message());
  };
  EXPECT_THAT(status(), HasSubstr("preprocess has no input\n"));
  options_.inputs = {input("{\"text\":\"a\"}"), dir_ / "none"};
  EXPECT_THAT(status(), HasSubstr(text("cannot open ", dir_ / "none")));
  options_.inputs.pop_back();
  options_.json_keys = {"a", "a"};
  EXPECT_THAT(status(), HasSubstr("JSON key 'a' is named twice\n"));
  options_.json_keys = {};
  EXPECT_THAT(status(), HasSubstr("preprocess has no JSON key\n"));
  options_.json_keys = {"text"};
  options_.output_prefix = dir_ / "none/out";
  EXPECT_THAT(status(), HasSubstr(text("cannot create ", dir_ / "none/out_text_document.bin")));
  options_.output_prefix = dir_ / "";
  EXPECT_THAT(status(), HasSubstr("is no file name\n"));
}

}  // namespace
}  // namespace megatron::data
