// The loop around the engine: what a step is given, what ends it, and when it evaluates and saves.
#include "train/loop.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "fake_dataset.hpp"
#include "support/temp_folder.hpp"
#include "tiny_gpt.hpp"

namespace megatron::train {
namespace {

using Json = nlohmann::json;
using test::TinyGpt;
using testing::HasSubstr;

class LoopTest : public testing::Test {
 protected:
  LoopTest() : gpt_("auto", 0.0), engine_(gpt_.engine()) {
    options_.train_iters = 4;
    options_.micro_batch_size = TinyGpt::kBatch;
    options_.global_batch_size = 2 * TinyGpt::kBatch;
    options_.lr = {.style = LrDecayStyle::constant, .max = 1e-2};
    options_.eval_iters = 1;
  }
  // Tokens by formula; sample 6k is masked but for its first position, so that micro-batches count
  // unequal numbers of positions.
  static Status sample(int64_t index, const std::vector<std::string>& fields,
                       void* const* buffers) {
    for (size_t f = 0; f < fields.size(); ++f) {
      for (int64_t i = 0; i < TinyGpt::kSeq; ++i) {
        auto* ints = static_cast<int32_t*>(buffers[f]);
        const auto n = static_cast<int32_t>(index * TinyGpt::kSeq + i);
        if (fields[f] == "tokens") ints[i] = n * 7 % static_cast<int32_t>(TinyGpt::kVocab);
        if (fields[f] == "labels") ints[i] = (n * 3 + 1) % static_cast<int32_t>(TinyGpt::kVocab);
        if (fields[f] == "position_ids") ints[i] = static_cast<int32_t>(i);
        if (fields[f] == "loss_mask")
          static_cast<float*>(buffers[f])[i] = index % 6 == 0 && i > 0 ? 0.0F : 1.0F;
      }
    }
    return {};
  }
  Result<LoopResult> run(LoopState state = {}) {
    std::vector<std::string> fields;
    for (const auto& input : engine_->inputs()) fields.push_back(input.name);
    test::FakeDataset train(1000, [=, this](int64_t index, void* const* buffers) {
      MGT_RETURN_IF_ERROR(sample(index, fields, buffers));
      return at_sample_ ? at_sample_(index, fields, buffers) : Status();
    });
    test::FakeDataset valid(1000, [=, this](int64_t index, void* const* buffers) {
      if (at_evaluation_) at_evaluation_();
      return sample(index + 500, fields, buffers);
    });
    const int64_t n = options_.global_batch_size / options_.micro_batch_size;
    const BatchShare share{options_.micro_batch_size, n, 0, options_.global_batch_size};
    DataFeed train_feed(train.view(), engine_->inputs(), share);
    DataFeed valid_feed(valid.view(), engine_->inputs(), share);
    Reporter reporter({.train_iters = options_.train_iters,
                       .log_interval = 1000,
                       .metrics_path = folder_ / "metrics.jsonl"});
    MGT_RETURN_IF_ERROR(reporter.open(state.iteration));
    hooks_.save = [this](const LoopState& s) {
      saved_.push_back(s.iteration);
      return Status();
    };
    testing::internal::CaptureStdout();
    auto result = run_loop(*engine_, train_feed, &valid_feed, options_, state, reporter, hooks_);
    testing::internal::GetCapturedStdout();
    return result;
  }
  // Values of `key` in metrics.jsonl, in order.
  std::vector<double> metric(const std::string& key) const {
    std::vector<double> out;
    std::istringstream lines(*read_file(folder_ / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json record = Json::parse(line);
      if (record.contains(key)) out.push_back(record[key]);
    }
    return out;
  }
  Json last_metrics() const {
    const std::string lines = *read_file(folder_ / "metrics.jsonl");
    return Json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  }
  std::vector<std::vector<float>> weights() const {
    std::vector<std::vector<float>> out;
    for (const auto& p : engine_->parameters()) out.push_back(test::download(*engine_, p));
    return out;
  }

  const test::TempFolder folder_;
  TinyGpt gpt_;
  std::unique_ptr<Engine> engine_;
  LoopOptions options_;
  LoopHooks hooks_;
  std::function<Status(int64_t, const std::vector<std::string>&, void* const*)> at_sample_;
  std::function<void()> at_evaluation_;
  std::vector<int64_t> saved_;
};

// Two micro-batches that count unequal numbers of positions are one batch twice as large: the loss
// is the mean over all positions, not the mean of two means.
TEST_F(LoopTest, AccumulationIsALargerBatch) {
  ASSERT_TRUE(run().ok());
  const auto losses = metric("lm loss"), norms = metric("grad_norm");
  const auto accumulated = weights();
  ASSERT_EQ(losses.size(), 4u);

  gpt_.request().micro_batch_size = options_.micro_batch_size = options_.global_batch_size;
  gpt_.request().micro_batches = 1;
  engine_ = gpt_.engine();
  ASSERT_TRUE(run().ok());
  const auto whole = metric("lm loss"), whole_norms = metric("grad_norm");
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], whole[i], 1e-6) << i;
    EXPECT_NEAR(norms[i], whole_norms[i], 1e-5 * norms[i]) << i;
  }
  const auto expected = weights();
  for (size_t p = 0; p < expected.size(); ++p)
    for (size_t i = 0; i < expected[p].size(); ++i)
      ASSERT_NEAR(accumulated[p][i], expected[p][i], 1e-4) << engine_->parameters()[p].name;
}

TEST_F(LoopTest, EvaluatesAndSavesAtItsIntervalsAndAtTheEnd) {
  options_.train_iters = 7;
  options_.eval_interval = 3;
  options_.save_interval = 2;
  const auto result = run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(saved_, (std::vector<int64_t>{2, 4, 6, 7}));
  EXPECT_EQ(metric("lm loss validation").size(), 4u) << "before the first step, at 3, 6 and 7";
  EXPECT_FALSE(result->stopped);
  EXPECT_EQ(result->state.iteration, 7);
  EXPECT_EQ(result->state.consumed_samples, 7 * options_.global_batch_size);
}

TEST_F(LoopTest, AResumedRunDoesNotEvaluateAtItsStart) {
  ASSERT_TRUE(run({.iteration = 2, .consumed_samples = 8}).ok());
  EXPECT_EQ(metric("iteration").front(), 3);
  EXPECT_EQ(metric("lm loss validation").size(), 1u);
}

TEST_F(LoopTest, StopsAfterTheIterationAndSaves) {
  std::atomic<bool> stop{false};
  hooks_.stop = &stop;
  at_sample_ = [&](int64_t index, const auto&, void* const*) {
    if (index == 5) stop = true;
    return Status();
  };
  const auto result = run();
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(result->stopped);
  EXPECT_LT(result->state.iteration, 4);
  EXPECT_EQ(saved_, (std::vector<int64_t>{result->state.iteration}));
}

TEST_F(LoopTest, OwesAnEvaluationInWhichItWasStopped) {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> samples{0};
  hooks_.stop = &stop;
  options_.train_iters = 2;
  options_.eval_iters = 20;
  at_evaluation_ = [&] { stop = ++samples > 25 * options_.global_batch_size; };  // in the second
  const auto stopped = run();
  ASSERT_TRUE(stopped.ok()) << stopped.status().message();
  EXPECT_TRUE(stopped->stopped);
  EXPECT_TRUE(stopped->state.evaluation_due);
  EXPECT_EQ(metric("lm loss validation").size(), 1u) << "before the first step";
  stop = false;
  at_evaluation_ = nullptr;
  const auto resumed = run(stopped->state);
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_FALSE(resumed->state.evaluation_due);
  EXPECT_EQ(metric("lm loss validation").size(), 2u);
  EXPECT_EQ(saved_, (std::vector<int64_t>{2, 2})) << "without the evaluation, and with it";
}

TEST_F(LoopTest, ALossThatIsNotFiniteEndsBeforeTheUpdate) {
  at_sample_ = [&](int64_t index, const auto& fields, void* const* buffers) {
    for (size_t f = 0; f < fields.size(); ++f) {
      if (fields[f] == "loss_mask" && index == 5)
        static_cast<float*>(buffers[f])[2] = std::numeric_limits<float>::infinity();
    }
    return Status();
  };
  options_.train_iters = 1;
  ASSERT_TRUE(run().ok());
  const auto before = weights();
  options_.train_iters = 2;
  const auto result = run({.iteration = 1, .consumed_samples = 4});
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("iteration 2 is not finite; the weights were not updated"));
  EXPECT_EQ(weights(), before);
  EXPECT_EQ(saved_, (std::vector<int64_t>{1})) << "nothing is saved after the failure";
  // The iteration is reported all the same, and counted.
  const Json last = last_metrics();
  EXPECT_EQ(last["iteration"], 2);
  EXPECT_EQ(last["consumed_samples"], 8);
  EXPECT_TRUE(last["lm loss"].is_null()) << last;
}

TEST_F(LoopTest, ATokenThatTheModelDoesNotHaveEndsBeforeItIsUsed) {
  for (const int32_t token : {static_cast<int32_t>(TinyGpt::kVocab), -1}) {
    engine_ = gpt_.engine();
    at_sample_ = nullptr;
    options_.train_iters = 1;
    ASSERT_TRUE(run().ok());
    const auto before = weights();
    at_sample_ = [&](int64_t index, const auto& fields, void* const* buffers) {
      for (size_t f = 0; f < fields.size(); ++f) {
        if (fields[f] == "tokens" && index == 5) static_cast<int32_t*>(buffers[f])[2] = token;
      }
      return Status();
    };
    options_.train_iters = 2;
    const auto result = run({.iteration = 1, .consumed_samples = 4});
    EXPECT_EQ(result.status().message(),
              text("field 'tokens' has ", token,
                   " at position 2\n"
                   "  the model's dimension 'vocab' has the indices 0 to 10\n"
                   "  fix: give data and model the same tokenizer, or enlarge 'vocab' in the model"
                   "\n  while reading sample 5 of the train split"));
    EXPECT_EQ(weights(), before);
    EXPECT_EQ(metric("iteration").back(), 1);
  }
}

// The whole run, its last evaluation and its last checkpoint are there.
TEST_F(LoopTest, AFinishedRunIsLeftAlone) {
  ASSERT_TRUE(run().ok());
  const auto metrics = *read_file(folder_ / "metrics.jsonl");
  const auto saved = saved_;
  const auto result = run({.iteration = 4, .consumed_samples = 16});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_FALSE(result->stopped);
  EXPECT_EQ(*read_file(folder_ / "metrics.jsonl"), metrics);
  EXPECT_EQ(saved_, saved);
}

// AdamW with a zero gradient moves nothing but by decay: a coefficient of clipping near zero shows
// only in what is reported, so the plain rule is checked by its first moment.
TEST_F(LoopTest, ClipsToTheNorm) {
  options_.train_iters = 1;
  const auto first_moment_norm = [&] {
    double squares = 0;
    for (const auto& s : engine_->optimizer_states()) {
      if (!s.name.starts_with("exp_avg.")) continue;
      for (const float x : test::download(*engine_, s)) squares += std::pow(x / 0.1, 2);  // 1 − β₁
    }
    return std::sqrt(squares);
  };
  options_.clip_grad = 0;  // off
  ASSERT_TRUE(run().ok());
  const double norm = metric("grad_norm").at(0);
  EXPECT_NEAR(first_moment_norm(), norm, 1e-5 * norm);

  options_.clip_grad = norm / 4;
  engine_ = gpt_.engine();
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(metric("grad_norm").at(0), norm) << "reported before clipping";
  EXPECT_NEAR(first_moment_norm(), norm / 4, 1e-5 * norm);

  options_.clip_grad = 4 * norm;
  engine_ = gpt_.engine();
  ASSERT_TRUE(run().ok());
  EXPECT_NEAR(first_moment_norm(), norm, 1e-5 * norm) << "a small gradient is left alone";
}

TEST_F(LoopTest, AnErrorOfTheDatasetEndsTheRun) {
  at_sample_ = [](int64_t index, const auto&, void* const*) {
    return index == 6 ? Status(Code::data_loss, "sample 6 is damaged") : Status();
  };
  EXPECT_THAT(std::string(run().status().message()), HasSubstr("sample 6 is damaged"));
}

}  // namespace
}  // namespace megatron::train
