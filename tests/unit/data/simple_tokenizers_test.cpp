// Tokenizers `byte` and `null`, also through their tables.
#include <gmock/gmock.h>

#include "plugins/tokenizers/byte/byte_tokenizer.hpp"
#include "plugins/tokenizers/null/null_tokenizer.hpp"
#include "unit/data/support.hpp"

namespace megatron {
namespace {

using Ids = std::vector<int32_t>;

TEST(ByteTokenizer, BytesAreIds) {
  const test::OwnedTokenizer<byte::ByteTokenizer> t({}, {});
  EXPECT_EQ(t->vocab_size(), 257);
  EXPECT_EQ(t->special_tokens().eod, 256);
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  Ids ids;
  t.view().encode(all, ids);
  ASSERT_EQ(ids.size(), 256u);
  for (int b = 0; b < 256; ++b) EXPECT_EQ(ids[static_cast<size_t>(b)], b);
  EXPECT_EQ(t.view().decode(ids), all);
  EXPECT_EQ(test::decode(*t, {104, 105, 256}), "hi");
  EXPECT_EQ(test::thrown([&] { test::decode(*t, {257}); }),
            "tokenizer 'byte' cannot decode id 257\n  its ids are 0 to 256\n  fix: decode with the "
            "tokenizer that made it");
}

TEST(NullTokenizer, WordsAreIds) {
  const test::OwnedTokenizer<null::NullTokenizer> t(null::kOptions, {{"vocab_size", "131072"}});
  EXPECT_EQ(t->vocab_size(), 131073);
  EXPECT_EQ(t.view().special_tokens().eod, 131072);
  EXPECT_EQ(test::encode(*t, "111214 343 54365900 77"), (Ids{111214, 343, 54365900, 77}));
  EXPECT_EQ(test::encode(*t, "  1\t2\n"), (Ids{1, 2}));
  EXPECT_EQ(test::encode(*t, " "), Ids{});
  EXPECT_EQ(test::decode(*t, {1, 20, 3}), "1 20 3");
}

TEST(NullTokenizer, Errors) {
  const test::OwnedTokenizer<null::NullTokenizer> t(null::kOptions, {{"vocab_size", "10"}});
  for (const std::string_view word : {"x", "1x", "-1", "2147483648", "1.5"}) {
    EXPECT_EQ(test::thrown([&] { test::encode(*t, text("1 ", word, " 2")); }),
              text("tokenizer 'null' cannot read '", word,
                   "'\n  its text is token ids: integers from 0 to 2147483647 with spaces between "
                   "them\n  fix: choose the tokenizer of this text, or correct the text"));
  }
}

}  // namespace
}  // namespace megatron
