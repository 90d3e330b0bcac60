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

// Every element of every tensor, and the configuration, is `mark`.
class Marked {
 public:
  explicit Marked(float mark) : values_(24, mark) {
    contents_.parameters = {{"word", {4, 6}}, {"norm", {3}}};
    contents_.optimizer_states = {{"exp_avg.word", {4, 6}}, {"exp_avg.norm", {3}}};
    contents_.config = text("mark = ", mark, "\n");
    contents_.read = [this](std::string_view name) -> Result<std::span<const float>> {
      return std::span<const float>(values_).first(name.ends_with("word") ? 24 : 3);
    };
  }
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;
  const Contents& contents() const { return contents_; }

 private:
  std::vector<float> values_;
  Contents contents_;
};

inline Result<std::string> save_marked(const std::string& directory, int64_t iteration, float mark,
                                       int64_t keep = 0) {
  const Marked marked(mark);
  return save(directory, {iteration, iteration * 8}, marked.contents(), keep);
}

// The mark that all of a checkpoint carries; fails when its parts come from different saves.
inline float mark_of(const Checkpoint& checkpoint) {
  std::vector<float> all;
  std::vector<float> one;
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{{"word", {4, 6}}, {"norm", {3}}}) {
    EXPECT_EQ(checkpoint.read_parameter(name, shape, one).message(), "");
    all.insert(all.end(), one.begin(), one.end());
    EXPECT_EQ(checkpoint.read_optimizer_state("exp_avg." + name, shape, one).message(), "");
    all.insert(all.end(), one.begin(), one.end());
  }
  EXPECT_EQ(all, std::vector<float>(54, all[0]));
  const auto config = checkpoint.config();
  EXPECT_TRUE(config.ok() && *config == text("mark = ", all[0], "\n"));
  EXPECT_EQ(checkpoint.progress().consumed_samples, checkpoint.progress().iteration * 8);
  return all[0];
}

}  // namespace megatron::checkpoint
