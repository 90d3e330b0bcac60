#include "train/reporter.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "log/log.hpp"

namespace megatron::train {
namespace {

using Json = nlohmann::ordered_json;

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1'000'000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:06d}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(now)), micros);
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02d}:{:02d}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02d}", s / 60, s % 60);
}

// Loss terms are called "<name> loss" as in Megatron's logs.
std::string loss_key(std::string_view name) { return text(name, " loss"); }

}  // namespace

std::string format_iteration(const IterationRecord& mean, int64_t train_iters,
                             double tokens_per_second, double tflops, std::string_view stamp) {
  std::string line = fmt::format(
      " [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} | elapsed time per iteration (ms): "
      "{:.1f} | ",
      stamp, mean.iteration, train_iters, mean.consumed_samples, mean.seconds * 1e3);
  if (tflops > 0) line += fmt::format("throughput per GPU (TFLOP/s/GPU): {:.1f} | ", tflops);
  line +=
      fmt::format("tokens per second: {:.1f} | learning rate: {:.6E} | global batch size: {:5d} | ",
                  tokens_per_second, mean.learning_rate, mean.global_batch_size);
  for (const auto& [name, value] : mean.losses)
    line += fmt::format("{}: {:.6E} | ", loss_key(name), value);
  return line + fmt::format(
                    "loss scale: {:.1f} | grad norm: {:.3f} | number of skipped iterations: {:3d} "
                    "| number of nan iterations: {:3d} |",
                    mean.loss_scale, mean.grad_norm, mean.skipped_iterations, mean.nan_iterations);
}

Reporter::~Reporter() {
  if (metrics_ != nullptr) std::fclose(metrics_);
}

Status Reporter::open(int64_t iteration) {
  if (options_.metrics_path.empty()) return {};
  std::string kept;
  if (iteration > 0) {
    const auto old = read_file(options_.metrics_path);
    if (!old.ok() && old.status().code() != Code::not_found) return old.status();
    size_t begin = 0;
    while (old.ok() && begin < old->size()) {
      const size_t end = std::min(old->find('\n', begin), old->size());
      const std::string line = old->substr(begin, end - begin);
      begin = end + 1;
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_object() || !record.contains("iteration")) continue;  // torn or not ours
      const Json& at = record["iteration"];
      if (at.is_number_integer() && at.get<int64_t>() <= iteration) kept += line + "\n";
    }
  }
  MGT_RETURN_IF_ERROR(write_file(options_.metrics_path, kept));
  metrics_ = std::fopen(options_.metrics_path.c_str(), "ae");
  if (metrics_ == nullptr) return errno_status("open", options_.metrics_path, errno);
  return {};
}

Status Reporter::write_metrics(const std::string& json) {
  if (metrics_ == nullptr) return {};
  if (std::fprintf(metrics_, "%s\n", json.c_str()) < 0 || std::fflush(metrics_) != 0) {
    return errno_status("write", options_.metrics_path, errno);
  }
  return {};
}

Status Reporter::iteration(const IterationRecord& record) {
  if (first_iteration_ < 0) first_iteration_ = record.iteration - 1;
  bar_seconds_ += record.seconds;
  ++interval_iterations_;
  interval_seconds_ += record.seconds;
  interval_skipped_ += record.skipped_iterations;
  interval_nan_ += record.nan_iterations;
  if (record.skipped_iterations == 0) {
    for (const auto& [name, value] : record.losses) interval_losses_[name] += value;
  }

  Json json = {{"iteration", record.iteration}, {"consumed_samples", record.consumed_samples}};
  for (const auto& [name, value] : record.losses) json[loss_key(name)] = value;
  json["grad_norm"] = record.grad_norm;
  json["learning_rate"] = record.learning_rate;
  json["elapsed_ms"] = record.seconds * 1e3;
  json["tokens_per_second"] = static_cast<double>(options_.tokens_per_iteration) / record.seconds;
  MGT_RETURN_IF_ERROR(write_metrics(json.dump()));

  const bool due = record.iteration % options_.log_interval == 0 || record.iteration == 1 ||
                   record.iteration == options_.train_iters || record.skipped_iterations > 0;
  if (due) {
    IterationRecord mean = record;
    mean.seconds = interval_seconds_ / static_cast<double>(interval_iterations_);
    mean.skipped_iterations = interval_skipped_;
    mean.nan_iterations = interval_nan_;
    const int64_t updates = interval_iterations_ - interval_skipped_;
    for (auto& [name, value] : mean.losses) {
      if (updates > 0) value = interval_losses_[name] / static_cast<double>(updates);
    }
    line(format_iteration(mean, options_.train_iters,
                          static_cast<double>(options_.tokens_per_iteration) / mean.seconds,
                          options_.flops_per_iteration / mean.seconds / 1e12, timestamp()));
    interval_iterations_ = 0;
    interval_seconds_ = 0;
    interval_skipped_ = interval_nan_ = 0;
    interval_losses_.clear();
  }
  draw_bar(record.iteration);
  return {};
}

Status Reporter::validation(std::string_view split, int64_t iteration,
                            const std::map<std::string, double>& losses) {
  std::string text_line = fmt::format(" {} loss at iteration {} | ", split, iteration);
  Json json = {{"iteration", iteration}};
  for (const auto& [name, value] : losses) {
    text_line += fmt::format("{} value: {:.6E} | {} PPL: {:.6E} | ", loss_key(name), value,
                             loss_key(name), std::exp(std::min(20.0, value)));
    json[fmt::format("{} {}", loss_key(name), split)] = value;
  }
  const std::string rule(text_line.size() + 1, '-');
  line(rule);
  line(text_line);
  line(rule);
  return write_metrics(json.dump());
}

void Reporter::line(std::string_view message) {
  if (options_.silent) return;
  clear_bar();
  const bool had_failed = std::ferror(stdout) != 0;
  std::fwrite(message.data(), 1, message.size(), stdout);
  std::fputc('\n', stdout);
  if (std::fflush(stdout) == 0 || had_failed) return;
  log::warning(text("standard output cannot be written: ", std::strerror(errno),
                    "; metrics.jsonl has what is missing there"));
}

void Reporter::draw_bar(int64_t iteration) {
  if (!options_.progress_bar) return;
  constexpr int64_t kWidth = 32;
  const int64_t done = kWidth * iteration / std::max<int64_t>(options_.train_iters, 1);
  std::string bar;
  for (int64_t i = 0; i < kWidth; ++i) bar += i < done ? "█" : "░";
  const double per_iteration = bar_seconds_ / static_cast<double>(iteration - first_iteration_);
  const double left = per_iteration * static_cast<double>(options_.train_iters - iteration);
  std::fprintf(stderr, "\r\033[2K %s %lld/%lld  %s elapsed, %s left", bar.c_str(),
               static_cast<long long>(iteration), static_cast<long long>(options_.train_iters),
               duration(bar_seconds_).c_str(), duration(left).c_str());
  std::fflush(stderr);
  bar_drawn_ = true;
}

void Reporter::clear_bar() {
  if (!bar_drawn_) return;
  std::fputs("\r\033[2K", stderr);
  std::fflush(stderr);
  bar_drawn_ = false;
}

void Reporter::finish() { clear_bar(); }

}  // namespace megatron::train
