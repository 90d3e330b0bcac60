// The index cache: damage is noticed and repaired, processes do not disturb each other (fault B18).
#include "plugins/datasets/megatron_gpt/cache.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include "unit/data/support.hpp"

namespace megatron::gpt {
namespace {

using test::read_file;
using test::TempFolder;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::vector<int32_t> kLengths{5, 3, 7, 4, 6};
const Lengths kView(std::as_bytes(std::span(kLengths)));

IndexPlan plan(int64_t samples = 13, uint32_t seed = 1234) {
  return *plan_index({{0, 5}, samples, 4, true, true, seed}, kView);
}

bool same(const GptIndex& a, const GptIndex& b) {
  const auto equal = [](const Column& x, const Column& y) {
    return x.width() == y.width() && std::ranges::equal(x.bytes(), y.bytes());
  };
  return equal(a.documents, b.documents) && equal(a.start_document, b.start_document) &&
         equal(a.start_offset, b.start_offset) && equal(a.shuffle, b.shuffle);
}

TEST(GptCache, SecondStartReadsTheFile) {
  const TempFolder dir;
  test::TestHost host;
  const IndexCache cache(dir / "cache/megatron_gpt", host);
  const auto fresh = build_index(plan(), kView);
  EXPECT_TRUE(same(*cache.get(plan(), kView), fresh));
  EXPECT_EQ(file_count(dir), 1u);
  const auto path = cache.path_of(index_key(plan(), kView));
  const auto loaded = load_index(path, index_key(plan(), kView));
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_TRUE(same(*loaded, fresh));
  EXPECT_TRUE(same(*cache.get(plan(), kView), fresh));
  EXPECT_EQ(host.log(), "");
}

TEST(GptCache, KeyCoversWhatDeterminesTheIndex) {
  const auto key = index_key(plan(), kView);
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(index_key(plan(), kView), key);
  EXPECT_NE(index_key(plan(18), kView), key);
  EXPECT_NE(index_key(plan(13, 1), kView), key);
  const std::vector<int32_t> other{5, 3, 7, 6, 4};  // the same total
  EXPECT_NE(index_key(plan(), Lengths(std::as_bytes(std::span(other)))), key);
  auto no_extra = plan();
  no_extra.extra = 0;
  EXPECT_NE(index_key(no_extra, kView), key);
}

class GptCacheDamage : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(store_index(path_, key_, fresh_).ok());
    good_ = read_file(path_);
  }
  // The warning after the file was replaced; the index must come out right and the file be
  // repaired.
  std::string damaged(const std::string& contents) {
    test::write_file(path_, contents);
    test::TestHost host;
    EXPECT_TRUE(same(*IndexCache(dir_.path(), host).get(plan(), kView), fresh_));
    EXPECT_EQ(read_file(path_), good_);
    return host.log();
  }
  std::string warning(std::string_view cause) const {
    return text(path_, ": damaged index cache\n  ", cause,
                "\n  fix: none needed; delete the file if this is said again\n  the index is built "
                "again\n");
  }
  TempFolder dir_;
  const GptIndex fresh_ = build_index(plan(), kView);
  const std::string key_ = index_key(plan(), kView);
  const std::string path_ = dir_ / (key_ + ".gptindex");
  std::string good_;
};

TEST_F(GptCacheDamage, IsRebuiltWithAWarning) {
  EXPECT_EQ(damaged(""), warning("it ends inside its header"));
  EXPECT_EQ(damaged(good_.substr(0, 119)), warning("it ends inside its header"));
  EXPECT_EQ(damaged("X" + good_.substr(1)), warning("it does not start with MGTGPTIX"));
  auto version = good_;
  version[8] = 9;
  EXPECT_EQ(damaged(version), warning("its version is 9, not 1"));
  auto key = good_;
  key[16] ^= 1;
  EXPECT_EQ(damaged(key), warning("it describes other data than its name says"));
  EXPECT_THAT(damaged(good_.substr(0, good_.size() - 8)),
              HasSubstr("bytes do not fit the sizes in its header"));
  auto huge = good_;
  huge[48 + 7] = 0x7F;
  EXPECT_THAT(damaged(huge), HasSubstr("bytes do not fit the sizes in its header"));
  auto content = good_;
  content[content.size() - 20] ^= 1;
  EXPECT_EQ(damaged(content), warning("its checksum is wrong"));
}

TEST_F(GptCacheDamage, EveryByteIsCovered) {
  for (size_t i = 0; i < good_.size(); ++i) {
    auto bad = good_;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    test::write_file(path_, bad);
    const auto loaded = load_index(path_, key_);
    // Only the zeros that align the columns carry nothing.
    EXPECT_TRUE(!loaded.ok() || same(*loaded, fresh_)) << "byte " << i;
  }
}

TEST(GptCache, FolderThatCannotBeWrittenIsAWarning) {
  const TempFolder dir;
  test::write_file(dir / "file", "not a folder");
  test::TestHost host;
  const auto index = *IndexCache(dir / "file/cache", host).get(plan(), kView);
  EXPECT_TRUE(same(index, build_index(plan(), kView)));
  EXPECT_THAT(host.log(), HasSubstr("Not a directory"));
  EXPECT_THAT(host.log(), HasSubstr("\n  the index is kept in memory only\n"));
}

TEST(GptCache, IndexBeyondTheMemoryIsAnErrorWithItsSize) {
  const TempFolder dir;
  test::TestHost host;
  const auto absurd = plan(100'000'000'000);  // 2.3 TB
  const auto index = IndexCache(dir.path(), host).get(absurd, kView);
  EXPECT_EQ(index.status().code(), Code::resource_exhausted);
  EXPECT_THAT(std::string(index.status().message()),
              MatchesRegex("an index of 100000000006 samples takes [0-9]+ MB of memory; the "
                           "split's 25 tokens repeat 16000000001 times in it\n  this machine has "
                           "[0-9]+ MB\n  fix: lower the iterations or the batch size, or use "
                           "more data"));
  EXPECT_EQ(file_count(dir), 0u);
}

// Four processes on an empty folder, over and over; one more is killed at a random moment.
TEST(GptCache, ProcessesMayStartTogether) {
  const std::vector<int32_t> lengths(20000, 100);
  const Lengths view(std::as_bytes(std::span(lengths)));
  const auto big = *plan_index({{0, 20000}, 100000, 64, true, true, 7}, view);
  const auto expected = build_index(big, view);
  for (int round = 0; round < 5; ++round) {
    const TempFolder dir;
    std::vector<pid_t> children;
    for (int i = 0; i < 5; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        test::TestHost host;
        const auto index = *IndexCache(dir.path(), host).get(big, view);
        ::_exit(same(index, expected) && host.log().empty() ? 0 : 1);
      }
      children.push_back(child);
    }
    ::usleep(static_cast<useconds_t>(2000 * round));
    ::kill(children[4], SIGKILL);
    for (int i = 0; i < 5; ++i) {
      int state = 0;
      ::waitpid(children[static_cast<size_t>(i)], &state, 0);
      if (i < 4) {
        EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "process " << i;
      }
    }
    const auto key = index_key(big, view);
    const auto loaded = load_index(dir / (key + ".gptindex"), key);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_TRUE(same(*loaded, expected));
  }
}

}  // namespace
}  // namespace megatron::gpt
