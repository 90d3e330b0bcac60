#include "base/file.hpp"
#include "base/hash.hpp"
#include "megatron/file.hpp"
#include "support/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>

namespace megatron {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  const test::TempFolder folder_;
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string path = folder_ / "a";
  for (const size_t size : {0, 1, 65535, 65536, 65537, 1000000}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31);
    ASSERT_TRUE(write_file(path, bytes).ok());
    const auto back = read_file(path);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(*back, bytes);
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileTest, ReadsFilesWithoutASize) {
  const auto maps = read_file("/proc/self/status");
  ASSERT_TRUE(maps.ok());
  EXPECT_THAT(*maps, testing::HasSubstr("Pid:"));
}

TEST_F(FileTest, AbsentFile) {
  const auto result = read_file(folder_ / "none");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::not_found);
  EXPECT_EQ(result.status().message(),
            text("cannot open ", folder_.path(), "/none\n",
                 "  the system says: No such file or directory\n",
                 "  fix: correct the path, or create the missing file or folder"));
}

TEST_F(FileTest, Folder) {
  const auto result = read_file(folder_.path());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message(),
            text("cannot read ", folder_.path(), "\n", "  the system says: Is a directory\n",
                 "  fix: look at the file and its folder with `ls -ld`"));
}

// None of them may hang the reader, or fill its memory.
TEST_F(FileTest, DevicesAndPipesAreRefused) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), pipe}) {
    const std::string message = text("cannot read ", path,
                                     "\n  the system says: it is a device, a pipe or a socket, not "
                                     "a file\n  fix: name a regular "
                                     "file");
    EXPECT_EQ(read_file(path).status().message(), message);
    EXPECT_EQ(MappedFile::open(path).status().message(), message);
    EXPECT_EQ(hash_file(path).status().message(), message);
  }
  EXPECT_EQ(read_file("").status().message(),
            "cannot open a file\n  its path is empty\n  fix: name the file");
}

TEST_F(FileTest, PendingFilesOfAKilledProcessAreRemoved) {
  const std::string path = folder_ / "a.bin";
  for (const char* other : {"a.bin.tmp", "a.bin.tmp.x", "b.bin.tmp.1.0", "a.bin.tmp.1.0.zip"})
    ASSERT_TRUE(write_file(folder_ / other, "precious").ok());
  ASSERT_TRUE(write_file(path + ".tmp.1.0", "left over").ok());
  const pid_t writer = fork();
  if (writer == 0) {
    auto file = PendingFile::create(path);
    _exit(file.ok() && file->write_value(1).ok() ? 0 : 1);  // no destructor
  }
  int status = -1;
  ASSERT_EQ(waitpid(writer, &status, 0), writer);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(files(), 5u) << "the writer removed one leftover, and left its own";
  auto first = PendingFile::create(path);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(files(), 5u);
  auto second = PendingFile::create(path);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(files(), 6u) << "one that is being written stays";
  EXPECT_TRUE(first->commit().ok());
  EXPECT_TRUE(second->commit().ok());
  EXPECT_EQ(files(), 5u);
}

TEST_F(FileTest, AbsentFolder) {
  const Status status = write_file(folder_ / "none/a", "x");
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_EQ(files(), 0u);
}

// A write that fails half-way leaves the old content and no temporary file.
TEST_F(FileTest, FailedWriteKeepsTheOldFile) {
  const std::string path = folder_ / "a";
  ASSERT_TRUE(write_file(path, "old").ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_file(path, std::string(100000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("File too large"));
  EXPECT_EQ(*read_file(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST(AbsolutePath, Table) {
  const std::string here = fs::current_path().string();
  EXPECT_EQ(absolute_path("a/../b", "/x"), "/x/b");
  EXPECT_EQ(absolute_path("../b", "/x/y"), "/x/b");
  EXPECT_EQ(absolute_path("/b/./c", "/x"), "/b/c");
  EXPECT_EQ(absolute_path("a/", "/x/"), "/x/a");
  EXPECT_EQ(absolute_path("..", "/x"), "/");
  EXPECT_EQ(absolute_path("b"), here + "/b");
  EXPECT_EQ(absolute_path(""), "");
}

}  // namespace
}  // namespace megatron
