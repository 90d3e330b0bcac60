// Learning rate and weight decay against the values that Megatron's scheduler gives
// (tests/parity/data/schedules.json), and against figures derived by hand.
#include "train/lr_schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.hpp"

namespace megatron::train {
namespace {

using Json = nlohmann::json;

Json reference() {
  const auto bytes = read_file(MEGATRON_SOURCE_DIR "/tests/parity/data/schedules.json");
  MGT_CHECK(bytes.ok(), bytes.status().message());
  return Json::parse(*bytes);
}

TEST(LrSchedule, EqualsMegatron) {
  int compared = 0;
  const Json vectors = reference();
  for (const Json& row : vectors.at("learning_rate")) {
    LrSchedule s;
    s.style = value_or_throw(parse_lr_decay_style(row.at("style").get<std::string>()));
    if (!row.at("wsd_decay_style").is_null())
      s.wsd_style =
          value_or_throw(parse_wsd_decay_style(row.at("wsd_decay_style").get<std::string>()));
    s.init = row.at("init_lr");
    s.max = row.at("max_lr");
    s.min = row.at("min_lr");
    s.warmup_samples = row.at("warmup_steps");
    s.decay_samples = row.at("decay_steps");
    s.wsd_decay_samples =
        row.at("wsd_decay_steps").is_null() ? 0 : row.at("wsd_decay_steps").get<int64_t>();
    const auto expected = row.at("expected").get<std::vector<double>>();
    const auto samples = row.at("n").get<std::vector<int64_t>>();
    ASSERT_EQ(samples.size(), expected.size());
    for (size_t i = 0; i < samples.size(); ++i, ++compared) {
      // Near the end of a decay the value is a difference of nearly equal numbers.
      EXPECT_NEAR(s.at(samples[i]), expected[i], 4e-16 * s.max)
          << row.at("style") << " " << row.at("wsd_decay_style") << " at " << samples[i];
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(WeightDecaySchedule, EqualsMegatron) {
  int compared = 0;
  const Json vectors = reference();
  for (const Json& row : vectors.at("weight_decay")) {
    WeightDecaySchedule s;
    s.style = value_or_throw(parse_weight_decay_style(row.at("style").get<std::string>()));
    s.start = row.at("start");
    s.end = row.at("end");
    s.samples = row.at("steps");
    const auto expected = row.at("expected").get<std::vector<double>>();
    const auto samples = row.at("n").get<std::vector<int64_t>>();
    for (size_t i = 0; i < samples.size(); ++i, ++compared)
      EXPECT_NEAR(s.at(samples[i]), expected[i], 4e-16 * std::max(s.end, s.start)) << samples[i];
  }
  EXPECT_GE(compared, 15);
}

struct Figure {
  LrDecayStyle style;
  WsdDecayStyle wsd;
  int64_t samples;
  double expected;
};
class LrFigures : public testing::TestWithParam<Figure> {};

// init 0, max 1e-3, min 1e-5, warm-up 100, decay 1000, last phase of WSD 200.
TEST_P(LrFigures, AreReproduced) {
  const LrSchedule s{GetParam().style, GetParam().wsd, 0, 1e-3, 1e-5, 100, 1000, 200};
  EXPECT_NEAR(s.at(GetParam().samples), GetParam().expected, 1e-12);
}

using enum LrDecayStyle;
INSTANTIATE_TEST_SUITE_P(
    Derived, LrFigures,
    testing::Values(Figure{linear, WsdDecayStyle::linear, 550, 5.05e-4},
                    Figure{cosine, WsdDecayStyle::linear, 550, 5.05e-4},
                    Figure{linear, WsdDecayStyle::linear, 900, 1.2e-4},
                    Figure{cosine, WsdDecayStyle::linear, 900, 3.985215271e-5},
                    Figure{inverse_square_root, WsdDecayStyle::linear, 900, 3.333333333e-4},
                    Figure{wsd, WsdDecayStyle::linear, 850, 7.525e-4},
                    Figure{wsd, WsdDecayStyle::cosine, 850, 8.550178567e-4},
                    Figure{wsd, WsdDecayStyle::exponential, 850, 6.849749022e-4},
                    Figure{wsd, WsdDecayStyle::minus_sqrt, 850, 5.05e-4},
                    // Half-way through a cosine: the mean of max and min; at its end min and not 0.
                    Figure{cosine, WsdDecayStyle::linear, 1000, 1e-5},
                    Figure{cosine, WsdDecayStyle::linear, 1001, 1e-5},
                    Figure{cosine, WsdDecayStyle::linear, 0, 0},
                    Figure{constant, WsdDecayStyle::linear, 5000, 1e-3}));

// The state of a schedule is what was consumed: a resumed run neither warms up again nor keeps an
// old maximum.
TEST(LrSchedule, HasNoMemory) {
  LrSchedule s{cosine, WsdDecayStyle::linear, 0, 6e-4, 6e-5, 10, 100, 0};
  const double before = s.at(50);
  EXPECT_EQ(s.at(5), 3e-4);
  EXPECT_EQ(s.at(50), before);
  s.max = 3e-4;
  EXPECT_LT(s.at(50), before);
}

TEST(Schedules, UnknownStylesAreNamed) {
  EXPECT_EQ(parse_lr_decay_style("polynomial").status().message(),
            "unknown lr_decay_style 'polynomial'\n"
            "  it is none of constant, linear, cosine, inverse-square-root, WSD\n"
            "  fix: choose one of them");
  EXPECT_EQ(parse_wsd_decay_style("sqrt").status().message(),
            "unknown lr_wsd_decay_style 'sqrt'\n"
            "  it is none of linear, cosine, exponential, minus_sqrt\n"
            "  fix: choose one of them");
  EXPECT_EQ(parse_weight_decay_style("step").status().message(),
            "unknown weight_decay_incr_style 'step'\n"
            "  it is none of constant, linear, cosine\n"
            "  fix: choose one of them");
}

}  // namespace
}  // namespace megatron::train
