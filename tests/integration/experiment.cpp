#include "integration/experiment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

namespace megatron::test {

namespace fs = std::filesystem;

Experiment::Experiment(std::string_view manifest) { write_file(*this / "tiny.toml", manifest); }

Command Experiment::command(const std::vector<std::string>& arguments) const {
  std::vector<std::string> all{"run", "tiny.toml"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return host_command(all, folder());
}

Outcome Experiment::train(const std::vector<std::string>& arguments) const {
  return run(command(arguments));
}

std::string Experiment::metrics() const {
  std::istringstream lines(read_file(*this / "run/metrics.jsonl"));
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    auto record = nlohmann::ordered_json::parse(line, nullptr, false);
    EXPECT_TRUE(record.is_object()) << line;
    if (!record.is_object()) continue;
    record.erase("elapsed_ms");
    record.erase("tokens_per_second");
    out += record.dump() + "\n";
  }
  EXPECT_NE(out, "");
  return out;
}

std::string Experiment::checkpoint_folder(int64_t iteration) const {
  std::string digits = std::to_string(iteration);
  digits.insert(0, 7 - digits.size(), '0');
  return *this / "run/checkpoints/iter_" + digits;
}

std::string Experiment::checkpoint(int64_t iteration) const {
  std::string out;
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors"}) {
    const std::string bytes = read_file(checkpoint_folder(iteration) + file);
    EXPECT_NE(bytes, "") << checkpoint_folder(iteration) << file;
    out += bytes;
  }
  return out;
}

int64_t Experiment::newest_iteration() const {
  int64_t newest = 0;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(*this / "run/checkpoints", absent)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("iter_") && name.find('.') == std::string::npos)
      newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  }
  return newest;
}

std::vector<std::string> until(int64_t iterations, std::vector<std::string> more) {
  more.insert(more.end(), {"--set", text("train.train_iters=", iterations)});
  return more;
}

Reference::Reference(int64_t iterations) : iterations_(iterations) {
  const Outcome o = experiment_.train(until(iterations));
  EXPECT_EQ(o.exit_code, 0) << o;
}

void Reference::expect_same(const Experiment& other) const {
  EXPECT_EQ(other.metrics(), experiment_.metrics());
  EXPECT_TRUE(other.checkpoint(iterations_) == experiment_.checkpoint(iterations_));
}

}  // namespace megatron::test
