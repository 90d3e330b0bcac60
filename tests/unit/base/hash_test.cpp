#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <cstdio>

#include "base/file.hpp"
#include "support/temp_folder.hpp"

namespace megatron {
namespace {

// XXH3-128 of the empty input as published with the algorithm (xxhsum's sanity test, seed 0).
TEST(Hash, PublishedValue) { EXPECT_EQ(hash_hex(""), "99aa06d3014798d86001c324468d497f"); }

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  std::string bytes;
  for (uint32_t i = 0; i < 3000000; ++i) bytes.push_back(static_cast<char>(i * i >> 3));
  const auto all = std::as_bytes(std::span(bytes));
  Hasher hasher;
  hasher.update({});
  for (size_t at = 0, step = 1; at < all.size(); at += step, step = step * 3 + 1)
    hasher.update(all.subspan(at, std::min(step, all.size() - at)));
  EXPECT_EQ(hasher.hex(), hash_hex(bytes));

  const test::TempFolder folder;
  const std::string path = folder / "bytes";
  ASSERT_TRUE(write_file(path, bytes).ok());
  EXPECT_EQ(*hash_file(path), hash_hex(bytes));
  bytes[12345] ^= 1;
  EXPECT_NE(*hash_file(path), hash_hex(bytes));
}

TEST(Hash, AbsentFile) {
  EXPECT_EQ(hash_file("/nowhere/x").status().message(),
            "cannot open /nowhere/x\n"
            "  the system says: No such file or directory\n"
            "  fix: correct the path, or create the missing file or folder");
}

}  // namespace
}  // namespace megatron
