// Records and their line numbers, over batch borders.
#include "data/record_reader.hpp"

#include <gmock/gmock.h>

#include "unit/data/support.hpp"

namespace megatron::data {
namespace {

using test::TempFolder;
using testing::ElementsAre;

// "line:text" of every record.
std::vector<std::string> records(const std::string& path, RecordKind kind, int* batches = nullptr) {
  auto reader = RecordReader::open(path, kind);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  std::vector<std::string> out;
  Batch batch;
  for (;;) {
    const auto more = reader->next(batch);
    EXPECT_TRUE(more.ok());
    if (!*more) return out;
    if (batches != nullptr) ++*batches;
    for (const auto& r : batch.records) out.push_back(text(r.line, ":", batch.text(r)));
  }
}

TEST(RecordReader, Lines) {
  const TempFolder dir;
  const auto path = dir / "f";
  const auto lines = [&](std::string_view s) {
    return records(test::write_file(path, s), RecordKind::line);
  };
  EXPECT_THAT(lines("a\nbc\r\n\nd"), ElementsAre("1:a", "2:bc", "3:", "4:d"));
  EXPECT_THAT(lines("a\n"), ElementsAre("1:a"));
  EXPECT_THAT(lines(""), ElementsAre());
}

TEST(RecordReader, Paragraphs) {
  const TempFolder dir;
  const auto path = dir / "f";
  const auto paragraphs = [&](std::string_view s) {
    return records(test::write_file(path, s), RecordKind::paragraph);
  };
  EXPECT_THAT(paragraphs("\n\na\nb\n\n \t\nc\r\nd\r\n\r\ne"),
              ElementsAre("3:a\nb", "7:c\r\nd", "10:e"));
  EXPECT_THAT(paragraphs("a\n\n"), ElementsAre("1:a"));
  EXPECT_THAT(paragraphs("\n \n"), ElementsAre());
}

TEST(RecordReader, WholeFile) {
  const TempFolder dir;
  EXPECT_THAT(records(test::write_file(dir / "f", "a\n\nb\n"), RecordKind::file),
              ElementsAre("1:a\n\nb\n"));
}

// Records of all sizes over several batches, some longer than a batch.
TEST(RecordReader, BatchBorders) {
  const TempFolder dir;
  for (const auto kind : {RecordKind::line, RecordKind::paragraph}) {
    std::string contents;
    std::vector<std::string> expected;
    int64_t line = 1;
    uint64_t state = 11;
    for (int i = 0; i < 3000; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const size_t n = 1 + (i % 700 == 699 ? size_t{3000000} : (state >> 33) % 3000);
      const std::string record(n, static_cast<char>('a' + i % 26));
      expected.push_back(text(line, ":", record));
      contents += record + (kind == RecordKind::line ? "\n" : "\n\n");
      line += kind == RecordKind::line ? 1 : 2;
    }
    int batches = 0;
    EXPECT_TRUE(records(test::write_file(dir / "f", contents), kind, &batches) == expected);
    EXPECT_GE(batches, 5);
  }
}

TEST(RecordReader, Errors) {
  const TempFolder dir;
  const auto error = [](const std::string& path) {
    return std::string(RecordReader::open(path, RecordKind::line).status().message());
  };
  EXPECT_EQ(
      error(dir / "none"),
      text("cannot open ", dir / "none",
           "\n  the system says: No such file or directory\n  fix: correct the path, or create "
           "the missing file or folder"));
  EXPECT_EQ(error(dir.path()),
            text("cannot read ", dir.path(), "\n  it is a folder\n  fix: name the files in it"));
  EXPECT_EQ(RecordReader::open("/dev/zero", RecordKind::file).status().message(),
            "cannot read /dev/zero\n  it is a device\n  fix: name a file or a pipe");
  EXPECT_EQ(
      error(test::write_file(dir / "f.gz", "\x1f\x8b\x08z")),
      text("cannot read ", dir / "f.gz",
           "\n  it is compressed with gzip\n  fix: decompress it first: gunzip -k ", dir / "f.gz"));
}

}  // namespace
}  // namespace megatron::data
