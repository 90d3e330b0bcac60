// From text to tokens to a model to text, through the commands that users type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "integration/experiment.hpp"
#include "support/shared_file.hpp"

namespace megatron::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

// ---- preprocess

class Preprocess : public testing::Test {
 protected:
  Outcome preprocess(std::vector<std::string> arguments, std::string prefix = "out") const {
    arguments.insert(arguments.begin(), {"preprocess", "--output-prefix", prefix});
    return host(std::move(arguments), folder_.path());
  }
  std::string bin(const std::string& prefix = "out") const { return pair(prefix, ".bin"); }
  std::string idx(const std::string& prefix = "out") const { return pair(prefix, ".idx"); }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.insert(entry.path().filename().string());
    return names;
  }
  TempFolder folder_;

 private:
  std::string pair(const std::string& prefix, const char* extension) const {
    const std::string bytes = read_file(folder_ / prefix + "_text_document" + extension);
    EXPECT_NE(bytes, "") << prefix << extension;
    return bytes;
  }
};

std::string u16s(const std::vector<uint16_t>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(uint16_t)};
}

TEST_F(Preprocess, JsonlAndTextOfTheSameDocumentsAreTheSame) {
  write_file(folder_ / "in.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\\u00e9\"}\n");
  write_file(folder_ / "in.txt", "ab\n\xc3\xa9\n");
  const Outcome json =
      preprocess({"--input", "in.jsonl", "--tokenizer", "byte", "--append-eod"}, "json");
  ASSERT_EQ(json.exit_code, 0) << json;
  EXPECT_EQ(json.out, "json_text_document.bin/.idx: 2 documents, 6 tokens (u16)\n");
  EXPECT_EQ(json.err, "");
  const Outcome plain = preprocess(
      {"--input", "in.txt", "--text", "line", "--tokenizer", "byte", "--append-eod"}, "plain");
  ASSERT_EQ(plain.exit_code, 0) << plain;
  EXPECT_EQ(bin("json"), u16s({'a', 'b', 256, 0xc3, 0xa9, 256}));
  EXPECT_EQ(bin("plain"), bin("json"));
  EXPECT_EQ(idx("plain"), idx("json"));
}

TEST_F(Preprocess, AnyNumberOfThreadsWritesTheSame) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i)
    lines += text("{\"text\": \"", i * 7919 % 1000, std::string(i % 50, 'x'), "\"}\n");
  write_file(folder_ / "in.jsonl", lines);
  for (const char* workers : {"1", "2", "5"}) {
    const Outcome o = preprocess(
        {"--input", "in.jsonl", "--tokenizer", "byte", "--append-eod", "--workers", workers},
        workers);
    ASSERT_EQ(o.exit_code, 0) << o;
    EXPECT_TRUE(bin(workers) == bin("1")) << workers;
    EXPECT_TRUE(idx(workers) == idx("1")) << workers;
  }
}

TEST_F(Preprocess, MegatronsOwnFiles) {
  MGT_SHARED_FILE(real, "/data/megatron-indexed");
  const Outcome o =
      preprocess({"--input", real + "/test.jsonl", "--tokenizer", "null", "--tokenizer-option",
                  "vocab_size=131072", "--append-eod", "--foreign-ids"});
  ASSERT_EQ(o.exit_code, 0) << o;
  EXPECT_TRUE(bin() == read_file(real + "/test_text_document.bin"));
  EXPECT_TRUE(idx() == read_file(real + "/test_text_document.idx"));
}

struct BadInput {
  const char* name;
  std::vector<std::string> arguments;
  int code;
  const char* message;
};
void PrintTo(const BadInput& row, std::ostream* out) { *out << row.name; }

const BadInput kBadInputs[] = {
    {"NoInput",
     {"--input", "absent.jsonl", "--tokenizer", "byte"},
     1,
     "error: cannot open absent.jsonl\n  the system says: No such file or directory\n"},
    {"BadLine", {"--input", "bad.jsonl", "--tokenizer", "byte"}, 1, "bad.jsonl:2"},
    {"TextThatIsNoIds",
     {"--input", "good.jsonl", "--tokenizer", "null", "--tokenizer-option", "vocab_size=100"},
     1,
     "error: tokenizer 'null' cannot read 'a'\n"},
    {"IdBeyondTheVocabulary",
     {"--input", "ids.txt", "--text", "line", "--tokenizer", "null", "--tokenizer-option",
      "vocab_size=100"},
     1,
     "error: ids.txt:2: the tokenizer made id 150 of the text\n  its vocabulary has the ids 0 to "
     "100\n  fix: choose the tokenizer and the options that belong to this text; --foreign-ids "
     "takes such ids\n"},
    {"KeysOfText",
     {"--input", "ids.txt", "--text", "file", "--json-keys", "a", "--tokenizer", "byte"},
     2,
     "error: wrong command line for `megatron-host preprocess`\n"},
    {"TooManyWorkers",
     {"--input", "good.jsonl", "--tokenizer", "byte", "--workers", "100000"},
     2,
     "error: --workers 100000 is out of range\n  it must be an integer from 0 to 1024\n  fix: see "
     "`megatron-host preprocess --help`\n"},
    {"Device",
     {"--input", "/dev/zero", "--text", "file", "--tokenizer", "byte"},
     2,
     "error: cannot read /dev/zero\n  it is a device\n"},
    {"NoTokenizer",
     {"--input", "bad.jsonl", "--tokenizer", "bite"},
     3,
     "\n  while reading --tokenizer bite: [tokenizer]\n"},
    {"MissingOption",
     {"--input", "bad.jsonl", "--tokenizer", "null"},
     2,
     "error: --tokenizer null: key 'vocab_size' is missing in [tokenizer]\n"
     "  plugin 'null' of [tokenizer] requires it: number of ordinary ids; the end of document is "
     "one "
     "more, with this id\n"
     "  fix: add --tokenizer-option vocab_size=<an integer at least 1 and at most 2147483646>\n"},
    {"UnknownOption",
     {"--input", "bad.jsonl", "--tokenizer", "null", "--tokenizer-option", "vocab=5"},
     2,
     "error: --tokenizer-option vocab=5: unknown key 'vocab' in [tokenizer]\n"},
    {"OptionOutOfRange",
     {"--input", "bad.jsonl", "--tokenizer", "null", "--tokenizer-option", "vocab_size=0"},
     2,
     "error: --tokenizer-option vocab_size=0: tokenizer.vocab_size = 0 is out of range\n"},
    {"OptionWithoutValue",
     {"--input", "bad.jsonl", "--tokenizer", "null", "--tokenizer-option", "vocab_size"},
     2,
     "error: --tokenizer-option vocab_size: not an assignment\n  --tokenizer-option takes "
     "KEY=VALUE\n  fix: write for example --tokenizer-option vocab_size=50257\n"},
    {"OptionWithASection",
     {"--input", "bad.jsonl", "--tokenizer", "null", "--tokenizer-option",
      "tokenizer.vocab_size=5"},
     2,
     "error: --tokenizer-option tokenizer.vocab_size=5: not an assignment\n"},
    {"TwoTokenizers",
     {"--input", "bad.jsonl", "--tokenizer", "byte", "--tokenizer-option", "plugin=null"},
     2,
     "error: --tokenizer-option plugin=null: the plugin is named twice\n  --tokenizer byte names "
     "it\n"
     "  fix: leave this option out, or give its value to --tokenizer\n"},
    {"Exists", {"--input", "good.jsonl", "--tokenizer", "byte"}, 1, "out_text_document"},
};

class PreprocessError : public Preprocess, public testing::WithParamInterface<BadInput> {};
TEST_P(PreprocessError, IsOneClearErrorAndNoDataset) {
  write_file(folder_ / "good.jsonl", "{\"text\": \"a\"}\n");
  write_file(folder_ / "ids.txt", "1 2\n1 2 150 3\n");
  write_file(folder_ / "bad.jsonl", "{\"text\": \"a\"}\n{\"text\": \n");
  const bool exists = GetParam().name == std::string_view("Exists");
  if (exists) write_file(folder_ / "out_text_document.idx", "precious");
  const Outcome o = preprocess(GetParam().arguments);
  EXPECT_EQ(o.exit_code, GetParam().code) << o;
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, StartsWith("error: "));
  EXPECT_EQ(o.err.find("error: "), o.err.rfind("error: ")) << o;
  EXPECT_THAT(o.err, HasSubstr(GetParam().message));
  EXPECT_THAT(o.err, HasSubstr("\n  fix: "));
  EXPECT_FALSE(fs::exists(folder_ / "out_text_document.bin"));
  EXPECT_EQ(read_file(folder_ / "out_text_document.idx"), exists ? "precious" : "");
}
INSTANTIATE_TEST_SUITE_P(All, PreprocessError, testing::ValuesIn(kBadInputs),
                         [](const auto& row) { return row.param.name; });

// The system refuses threads when their stacks find no room.
TEST_F(Preprocess, ThreadsThatCannotStartAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than the test allows";
#endif
  write_file(folder_ / "in.txt", "a\n");
  const Outcome o = run(host_command(
      {"-c",
       "ulimit -s 8192 && ulimit -v 2000000 && exec \"$0\" preprocess --input in.txt --text line "
       "--tokenizer byte --output-prefix out --workers 1024",
       kHost},
      folder_.path(), "/bin/sh"));
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_THAT(o.err, testing::MatchesRegex(
                         "error: cannot start 1024 encoding threads \\([0-9]+ started\\)\n"
                         "  the system says: .*\n  fix: ask for fewer workers, .*\n"));
  EXPECT_EQ(files(), std::set<std::string>{"in.txt"});
}

// A pipe that stays silent, so that no machine is too fast for the test.
class StoppedPreprocess : public Preprocess {
 protected:
  StoppedPreprocess() {
    EXPECT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    writer_ = FileDescriptor(::open((folder_ / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  }
  // With both outputs opened.
  Outcome stop(int signal) {
    Process process(host_command({"preprocess", "--input", "pipe", "--text", "line", "--tokenizer",
                                  "byte", "--output-prefix", "out"},
                                 folder_.path()));
    for (int i = 0; i < 3000 && files().size() < 3; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(files().size(), 3u);
    process.send(signal);
    return process.finish();
  }
  FileDescriptor writer_;
};

TEST_F(StoppedPreprocess, RemovesWhatItBegan) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Outcome o = stop(signal);
    EXPECT_EQ(o.exit_code, 130) << o;
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err,
              "error: stopped by a signal\n  no dataset was written or replaced\n  fix: start the "
              "command again\n");
    EXPECT_EQ(files(), std::set<std::string>{"pipe"});
  }
}

TEST_F(StoppedPreprocess, TheNextRunRemovesWhatAKilledOneBegan) {
  EXPECT_EQ(stop(SIGKILL).signal, SIGKILL);
  EXPECT_EQ(files().size(), 3u);
  write_file(folder_ / "in.txt", "a\n");
  EXPECT_EQ(preprocess({"--input", "in.txt", "--text", "line", "--tokenizer", "byte"}).exit_code,
            0);
  EXPECT_EQ(files(), (std::set<std::string>{"in.txt", "out_text_document.bin",
                                            "out_text_document.idx", "pipe"}));
}

// ---- training on a dataset, whole and damaged

// 40 documents of 30 tokens, u16: lengths at 34, pointers at 194, documents at 514, end at 842.
class Corpus : public Experiment {
 public:
  Corpus()
      : Experiment(replaced(std::string(kTinyGpt), "plugin = \"mock\"",
                            "plugin = \"megatron_gpt\"\ndata_path = \"corpus_text_document\"\n"
                            "split = \"80,20,0\"")) {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += std::string(29, static_cast<char>('a' + i % 26)) + "\n";
    write_file(*this / "corpus.txt", lines);
    const Outcome o = host({"preprocess", "--input", "corpus.txt", "--text", "line",
                            "--output-prefix", "corpus", "--tokenizer", "byte", "--append-eod"},
                           folder());
    EXPECT_EQ(o.exit_code, 0) << o;
    EXPECT_EQ(fs::file_size(idx()), 842u);
    EXPECT_EQ(fs::file_size(bin()), 2400u);
  }
  std::string idx() const { return *this / "corpus_text_document.idx"; }
  std::string bin() const { return *this / "corpus_text_document.bin"; }
};

TEST(Data, ACorpusTrainsAndResumes) {
  // Long enough not to end before the signal comes. The order of samples follows from the number
  // that the run asks for, so the run is killed, not shortened.
  constexpr int64_t kEnd = 100;
  const Corpus whole, halves;
  ASSERT_EQ(whole.train(until(kEnd)).exit_code, 0);
  Process process(halves.command(until(kEnd, {"--set", "checkpoint.save_interval=1"})));
  ASSERT_TRUE(process.wait_for("saved checkpoint"));
  process.send(SIGKILL);
  ASSERT_EQ(process.finish().signal, SIGKILL);
  const Outcome o = halves.train(until(kEnd, {"--resume"}));
  ASSERT_EQ(o.exit_code, 0) << o;
  EXPECT_EQ(halves.metrics(), whole.metrics());
  EXPECT_TRUE(halves.checkpoint(kEnd) == whole.checkpoint(kEnd));
}

struct Damage {
  const char* name;
  void (*apply)(const Corpus& corpus);
  const char* message;
};
void PrintTo(const Damage& row, std::ostream* out) { *out << row.name; }

template <size_t kOffset, class T, auto kValue>
void set(const Corpus& corpus) {
  std::string bytes = read_file(corpus.idx());
  const T value = static_cast<T>(kValue);
  std::memcpy(&bytes[kOffset], &value, sizeof value);
  write_file(corpus.idx(), bytes);
}
template <size_t kSize>
void cut(const Corpus& corpus) {
  fs::resize_file(corpus.idx(), kSize);
}

const Damage kDamages[] = {
    {"Magic", set<0, char, 'X'>, "damaged index\n  it does not start with the bytes MMIDIDX"},
    {"Version", set<9, uint64_t, 2>, "damaged index\n  its version is 2;"},
    {"Dtype", set<17, uint8_t, 99>, "damaged index\n  its dtype code is 99;"},
    {"OtherDtype", set<17, uint8_t, 4>, "damaged index\n  the pointer of sequence 1 is "},
    {"Sequences", set<18, uint64_t, 1u << 30>, "the file ends inside its sequence lengths"},
    {"Documents", set<26, uint64_t, 1u << 30>, "the file ends inside its document indices"},
    {"Length", set<34, int32_t, -1>, "the length of sequence 0 is -1"},
    {"Empty", cut<0>, "damaged index\n  the file is empty"},
    {"CutInTheHeader", cut<33>, "the file ends inside its header"},
    {"CutAfterTheHeader", cut<34>, "the file ends inside its sequence lengths"},
    {"CutAfterTheLengths", cut<194>, "the file ends inside its sequence pointers"},
    {"CutAfterThePointers", cut<514>, "the file ends inside its document indices"},
    {"CutAtTheEnd", cut<841>, "the file ends inside its document indices"},
    {"ShortBin", [](const Corpus& c) { fs::resize_file(c.bin(), 2398); },
     "corpus_text_document.bin: shorter than its index says\n  the file has 2398 bytes"},
    {"LongBin", [](const Corpus& c) { fs::resize_file(c.bin(), 2402); },
     "corpus_text_document.bin: longer than its index says\n  the file has 2402 bytes"},
    {"NoBin", [](const Corpus& c) { fs::remove(c.bin()); }, "corpus_text_document.bin"},
};

class DamagedData : public testing::TestWithParam<Damage> {};
TEST_P(DamagedData, IsOneClearErrorBeforeTheFirstStep) {
  const Corpus corpus;
  GetParam().apply(corpus);
  const Outcome o = corpus.train();
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, StartsWith("error: "));
  EXPECT_EQ(o.err.find("error: "), o.err.rfind("error: ")) << o;
  EXPECT_THAT(o.err, HasSubstr(GetParam().message));
  EXPECT_THAT(o.err, HasSubstr("\n  fix: "));
  EXPECT_THAT(o.err, HasSubstr("\n  while opening the train split of tiny.toml:23:1\n"));
  EXPECT_FALSE(fs::exists(corpus / "run")) << "a refused run must not leave a folder";
}
INSTANTIATE_TEST_SUITE_P(All, DamagedData, testing::ValuesIn(kDamages),
                         [](const auto& row) { return row.param.name; });

// The dataset cannot tell without a tokenizer; the model has no row for some ids.
class ForeignTokens : public testing::TestWithParam<std::vector<std::string>> {};
TEST_P(ForeignTokens, EndTheRunBeforeTheWeightsChange) {
  const Corpus corpus;
  std::string manifest =
      replaced(read_file(corpus / "tiny.toml"), "[tokenizer]\nplugin = \"byte\"\n", "");
  manifest = replaced(manifest, "plugin = \"gpt\"\n", "plugin = \"gpt\"\nvocab_size = 256\n");
  const bool several = !GetParam().empty();
  if (several) manifest += "\n[[parallel]]\nplugin = \"data\"\n";
  write_file(corpus / "tiny.toml", manifest);
  for (const char* split : {"valid", "train"}) {
    auto arguments = GetParam();
    const char* eval_iters = *split == 'v' ? "train.eval_iters=1" : "train.eval_iters=0";
    arguments.insert(arguments.end(), {"--overwrite", "--set", "checkpoint.save_interval=1",
                                       "--set", "train.global_batch_size=8", "--set", eval_iters});
    const Outcome o = corpus.train(arguments);
    EXPECT_EQ(o.exit_code, 1) << o;
    EXPECT_THAT(o.err,
                testing::ContainsRegex("error: field '(tokens|labels)' has 256 at position "));
    EXPECT_THAT(o.err, HasSubstr("the model's dimension 'vocab' has the indices 0 to 255\n"));
    EXPECT_THAT(o.err, HasSubstr(text(" of the ", split, " split\n")));
    EXPECT_TRUE(several || o.err.find("error: ") == o.err.rfind("error: ")) << o;
    EXPECT_THAT(o.out, testing::Not(HasSubstr("iteration        1/")));
    EXPECT_EQ(corpus.newest_iteration(), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(All, ForeignTokens,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"--ranks", "2"}),
                         [](const auto& row) { return row.param.empty() ? "One" : "Two"; });

// ---- generate

class Generate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    trained_ = new Experiment;
    const Outcome o = trained_->train(until(10));
    ASSERT_EQ(o.exit_code, 0) << o;
  }
  static void TearDownTestSuite() {
    delete trained_;
    trained_ = nullptr;
  }
  static Outcome generate(std::vector<std::string> arguments, const std::string& from = "run") {
    arguments.insert(arguments.begin(), {"generate", from});
    return host(std::move(arguments), trained_->folder());
  }
  static std::string output(std::vector<std::string> arguments) {
    const Outcome o = generate(std::move(arguments));
    EXPECT_EQ(o.exit_code, 0) << o;
    EXPECT_EQ(o.err, "");
    EXPECT_THAT(o.out, testing::EndsWith("\n"));
    return o.out;
  }
  static Experiment* trained_;
};
Experiment* Generate::trained_ = nullptr;

TEST_F(Generate, GreedyIsAlwaysTheSame) {
  const std::string once = output({"--prompt", "abc", "--tokens", "12", "--greedy"});
  EXPECT_THAT(once, StartsWith("abc"));
  EXPECT_GT(once.size(), 4u);
  for (const std::vector<std::string>& same : {std::vector<std::string>{"--greedy"},
                                               {"--greedy", "--seed", "7"},
                                               {"--top-k", "1"},
                                               {"--temperature", "0"},
                                               {"--greedy", "--set", "train.num_threads=1"}}) {
    auto arguments = same;
    arguments.insert(arguments.end(), {"--prompt", "abc", "--tokens", "12"});
    EXPECT_EQ(output(arguments), once) << testing::PrintToString(same);
  }
}

TEST_F(Generate, DrawsFollowTheSeed) {
  for (const std::vector<std::string>& draw :
       {std::vector<std::string>{}, {"--top-k", "50"}, {"--top-p", "0.9"}}) {
    const auto with_seed = [&](const char* seed) {
      auto arguments = draw;
      arguments.insert(arguments.end(), {"--prompt", "abc", "--tokens", "12", "--seed", seed});
      return output(arguments);
    };
    EXPECT_EQ(with_seed("1"), with_seed("1"));
    EXPECT_NE(with_seed("1"), with_seed("2"));
  }
}

TEST_F(Generate, Prompts) {
  // Without one it starts from the end-of-document id, which has no bytes.
  EXPECT_LE(output({"--tokens", "5", "--seed", "3"}).size(), 6u);
  EXPECT_THAT(output({"--prompt", "\xc3\xa9", "--tokens", "1"}), StartsWith("\xc3\xa9"));
  // Beyond seq_length = 16 the model sees the last 16 tokens; the output begins with the whole.
  const std::string tail = "0123456789abcdef", longer = "a longer start than 16: " + tail;
  const std::string after_longer = output({"--prompt", longer, "--tokens", "1", "--greedy"});
  ASSERT_THAT(after_longer, StartsWith(longer));
  EXPECT_EQ(after_longer.substr(longer.size()),
            output({"--prompt", tail, "--tokens", "1", "--greedy"}).substr(tail.size()));
}

TEST_F(Generate, ACheckpointByItsFolder) {
  const std::vector<std::string> arguments{"--prompt", "abc", "--tokens", "5", "--greedy"};
  EXPECT_EQ(generate(arguments, "run/checkpoints/iter_0000010").out, output(arguments));
  EXPECT_EQ(generate(arguments, "run/checkpoints").out, output(arguments));
  const Outcome older = generate(arguments, "run/checkpoints/iter_0000005");
  EXPECT_EQ(older.exit_code, 0) << older;
}

// Its text of two ids has a space that neither has alone.
TEST(GenerateIds, AreApart) {
  const Experiment experiment;
  const std::vector<std::string> null{"--set", "tokenizer.plugin='null'", "--set",
                                      "tokenizer.vocab_size=9"};
  ASSERT_EQ(experiment.train(until(1, null)).exit_code, 0);
  const Outcome o = host({"generate", "run", "--prompt", "1 2", "--tokens", "3", "--seed", "4"},
                         experiment.folder());
  EXPECT_EQ(o.exit_code, 0) << o;
  EXPECT_THAT(o.out, testing::MatchesRegex("1 2( [0-9])+\n"));
}

TEST(GenerateIds, NoneIsChosenFromWhatIsNotANumber) {
  const Experiment experiment;
  const Outcome trained =
      experiment.train(until(1, {"--set", "optimizer.lr=1e38", "--set",
                                 "optimizer.lr_warmup_iters=0", "--set", "train.eval_iters=0"}));
  ASSERT_EQ(trained.exit_code, 0) << trained;
  const Outcome o = host({"generate", "run", "--prompt", "ab"}, experiment.folder());
  EXPECT_EQ(o.exit_code, 1) << o;
  EXPECT_EQ(o.err, text("error: token 1 cannot be chosen\n  the model's logits are not finite\n"
                        "  fix: look at the weights of 'run/checkpoints/iter_0000001': the run "
                        "may have diverged\n"));
}

TEST_F(Generate, Errors) {
  const Outcome absent = generate({}, "nowhere");
  EXPECT_EQ(absent.exit_code, 1) << absent;
  EXPECT_EQ(absent.err,
            "error: there is no sound checkpoint in 'nowhere'\n  the folder does not exist\n"
            "  fix: check the path, or start the run anew\n");
  const Outcome smaller = generate({"--set", "model.num_layers=1"});
  EXPECT_EQ(smaller.exit_code, 1) << smaller;
  EXPECT_THAT(smaller.err, HasSubstr("', for which the run has no place\n"));
  struct Wrong {
    std::string option, value, message;
  };
  const std::string tokens = "\n  it must be an integer from 1 to 2147483647\n";
  const std::string count = "\n  it must be an integer of at least 0\n";
  const std::string real = "\n  it must be a number of at least 0\n";
  const std::string share = "\n  it must be a number from 0 to 1\n";
  for (const auto& [option, value, message] :
       {Wrong{"--tokens", "0", "is out of range" + tokens},
        {"--tokens", "9223372036854775807", "is out of range" + tokens},
        {"--tokens", "x", "is not an integer" + tokens},
        {"--tokens", "1.5", "is not an integer" + tokens},
        {"--tokens", "", "is not an integer" + tokens},
        {"--top-k", "-1", "is out of range" + count},
        {"--top-k", "99999999999999999999", "is out of range" + count},
        {"--seed", "-1", "is out of range" + count},
        {"--temperature", "-1", "is out of range" + real},
        {"--temperature", "nan", "is out of range" + real},
        {"--temperature", "inf", "is out of range" + real},
        {"--temperature", "1e999", "is out of range" + real},
        {"--top-p", "1.5", "is out of range" + share},
        {"--top-p", "nan", "is out of range" + share},
        {"--top-p", "0.5x", "is not a number" + share}}) {
    const Outcome o = generate({option, value});
    EXPECT_EQ(o.exit_code, 2) << o;
    EXPECT_EQ(o.err, text("error: ", option, " ", value, " ", message,
                          "  fix: see `megatron-host generate --help`\n"));
    EXPECT_EQ(o.out, "");
  }
}

}  // namespace
}  // namespace megatron::test
