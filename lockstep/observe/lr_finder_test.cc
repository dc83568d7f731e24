// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/lr_finder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "tests/support/source_root.h"

namespace lockstep {
namespace {

nlohmann::json golden() {
  return nlohmann::json::parse(text_of_file(lockstep::testing::source_root() / "tests/golden/finders/rates.json"));
}

// Passes losses to the finder until it stops the test. Returns the number of losses that it recorded.
void feed(LrFinder& finder, const nlohmann::json& losses) {
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const StepEnded step{.learning_rate = 1e-8 * std::pow(1e8, static_cast<double>(t) / 100), .loss = losses[t]};
    if (finder.on(step) == Verdict::kStop) return;
  }
}

TEST(LrFinder, SuggestsWhereTheLossFallsFastest) {
  const auto all = golden();
  for (const auto& [name, wanted] : all.items()) {
    LrFinder finder;
    feed(finder, wanted.at("losses"));
    ASSERT_EQ(finder.points().size(), wanted.at("kept").get<std::size_t>()) << name;
    for (std::size_t i = 0; i < finder.points().size(); ++i) {
      EXPECT_NEAR(finder.points()[i].smoothed, wanted["smoothed"][i].get<double>(), 1e-12) << name << " " << i;
    }
    ASSERT_TRUE(finder.suggestion()) << name;
    EXPECT_NEAR(*finder.suggestion() / wanted["suggestion"].get<double>(), 1, 1e-12) << name;
  }
}

TEST(LrFinder, EndsWhereTheLossIsNoNumber) {
  LrFinder finder;
  EXPECT_EQ(finder.on(StepEnded{.learning_rate = 0.1, .loss = 1}), Verdict::kContinue);
  EXPECT_EQ(finder.on(StepEnded{.learning_rate = 0.2, .loss = std::numeric_limits<double>::quiet_NaN()}),
            Verdict::kStop);
  EXPECT_EQ(finder.points().size(), 1U);
}

TEST(LrFinder, SuggestsNothingOfTooFewSteps) {
  LrFinder finder;
  for (int i = 0; i < 12; ++i) finder.on(StepEnded{.learning_rate = 0.1 * (i + 1), .loss = 3.0 - i});
  EXPECT_FALSE(finder.suggestion());
}

TEST(LrFinder, DrawsTheCurveWithTheSuggestionMarked) {
  LrFinder finder;
  feed(finder, golden().at("bowl").at("losses"));
  const auto lines = split(finder.chart(60), '\n');
  ASSERT_EQ(lines.size(), 14U);  // Twelve, the scale, and what follows the last line's end.
  for (const auto& line : lines) EXPECT_LE(line.size(), 60U) << line;
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.find('O') != line.npos; }), 1);
  EXPECT_EQ(lines[0].substr(0, 4), "2.84");
  EXPECT_NE(lines[12].find("1e-08"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
