// A temporary folder, and checkpoints whose tensors tell which save wrote them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/temp_folder.hpp"

namespace megatron::checkpoint {

using Folder = test::TempFolder;

inline void put(const std::string& path, std::string_view bytes) {
  const Status status = write_file(path, bytes);
  MGT_CHECK(status.ok(), status.message());
}
inline std::string get(const std::string& path) {
  auto bytes = read_file(path);
  MGT_CHECK(bytes.ok(), bytes.status().message());
  return *std::move(bytes);
}

// The tensors of the checkpoints here.
inline Contents contents() {
  return {{{"word", {4, 6}}, {"norm", {3}}}, {{"exp_avg.word", {4, 6}}, {"exp_avg.norm", {3}}}};
}

// Every element of every tensor, and the configuration, is `mark`. Written as two ranks would: each
// a half of each tensor.
inline Result<std::string> save_marked(
    const std::string& directory, int64_t iteration, float mark, int64_t keep = 0,
    const CheckpointWriter::Warn& warn = [](auto) {}) {
  const std::vector<float> values(24, mark);
  CheckpointWriter leader(directory, {iteration, iteration * 8}, contents());
  MGT_RETURN_IF_ERROR(leader.begin());
  for (const bool second : {false, true}) {
    CheckpointWriter rank(directory, {iteration, iteration * 8}, contents());
    MGT_RETURN_IF_ERROR(rank.open());
    for (const std::string prefix : {"", "exp_avg."}) {
      for (const auto& [name, size] : {std::pair("word", 24), std::pair("norm", 3)}) {
        const int64_t half = size / 2;
        const auto count = static_cast<size_t>(second ? size - half : half);
        MGT_RETURN_IF_ERROR(
            rank.write(prefix + name, second ? half : 0, std::span(values).first(count)));
      }
    }
    MGT_RETURN_IF_ERROR(rank.sync());
  }
  return leader.commit(text("mark = ", mark, "\n"), keep, warn);
}

// The mark that all of a checkpoint carries; fails when its parts come from different saves.
inline float mark_of(const Checkpoint& checkpoint) {
  std::vector<float> all;
  std::vector<float> one;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{{"word", {4, 6}}, {"norm", {3}}}) {
    one.resize(static_cast<size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
    for (const auto& reader : {checkpoint.parameter(name, shape),
                               checkpoint.optimizer_state("exp_avg." + name, shape)}) {
      EXPECT_TRUE(reader.ok()) << reader.status().message();
      EXPECT_EQ(reader->read(0, one).message(), "");
      all.insert(all.end(), one.begin(), one.end());
    }
  }
  EXPECT_EQ(all, std::vector<float>(54, all[0]));
  const auto config = checkpoint.config();
  EXPECT_TRUE(config.ok() && *config == text("mark = ", all[0], "\n"));
  EXPECT_EQ(checkpoint.progress().consumed_samples, checkpoint.progress().iteration * 8);
  return all[0];
}

}  // namespace megatron::checkpoint
