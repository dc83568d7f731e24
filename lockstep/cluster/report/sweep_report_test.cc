// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/sweep_report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/text.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

RunReport trial_of(const std::string& name, RunState state, const std::map<std::string, double>& metrics) {
  RunReport report{.path = "/runs/sweep/" + name, .name = name, .state = state, .alive_s = 61.25};
  if (metrics.empty()) return report;
  report.training.emplace();
  report.training->metrics = metrics;
  return report;
}

/// Two trials that trained, one that failed before a step, and one whose folder was removed.
SweepReport shown_sweep() {
  SweepReport sweep{.name = "digits"};
  for (const char* lr : {"0.1", "0.03", "0.01", "[1,2]"}) {
    const auto number = std::to_string(sweep.trials.size() + 1);
    sweep.trials.push_back(
        {.name = "0" + number, .sets = {std::string("optimizer.lr=") + lr, "trainer.seed=" + number}});
  }
  sweep.runs = {trial_of("01", RunState::kFinished, {{"val_loss", 0.25}, {"val_accuracy", 0.9}}),
                trial_of("02", RunState::kFinished, {{"val_loss", 0.125}}), trial_of("03", RunState::kFailed, {}),
                std::nullopt};
  sweep.runs[2]->end = RunEnd{};
  sweep.runs[2]->end->state = "failed";
  sweep.runs[2]->end->code = 3;
  return sweep;
}

TEST(SweepReport, HasARowOfValuesAndLastMetricsForEachTrial) {
  const auto rows = sweep_table(shown_sweep());
  const TableRows wanted = {
      {"trial", "optimizer.lr", "trainer.seed", "state", "time (s)", "val_accuracy", "val_loss"},
      {"01", "0.1", "1", "finished", "61.2", "0.9", "0.25"},
      {"02", "0.03", "2", "finished", "61.2", "-", "0.125"},
      {"03", "0.01", "3", "failed (3)", "61.2", "-", "-"},
      {"04", "[1,2]", "4", "not there", "-", "-", "-"},
  };
  EXPECT_EQ(rows, wanted);
}

TEST(SweepReport, CountsStatesAndNamesTheLowestLoss) {
  const auto sentences = sweep_sentences(shown_sweep());
  ASSERT_EQ(sentences.size(), 2U);
  EXPECT_EQ(sentences[0], "4 trials: 1 failed, 2 finished, 1 not there.");
  EXPECT_EQ(sentences[1], "The lowest last val_loss is 0.125, of 02.");
  auto one = shown_sweep();
  one.runs[1].reset();
  EXPECT_EQ(sweep_sentences(one).size(), 1U) << "one trial has nothing to be lower than";
}

TEST(SweepReport, StandsInPlaceOfTheRunsReports) {
  ReportPage page;
  page.sweep = shown_sweep();
  const auto text = report_text(page);
  EXPECT_HAS(text, "digits: 4 trials: 1 failed");
  EXPECT_HAS(text, "02  0.03 ");
  EXPECT_HAS(text, "`lockstep report digits/TRIAL` tells more of one.");
}

TEST(SweepReport, IsTheSameInJson) {
  const auto rows = sweep_json(shown_sweep());
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["sets"], (nlohmann::json{{"optimizer.lr", "0.1"}, {"trainer.seed", "1"}}));
  EXPECT_EQ(rows[0]["metrics"]["val_loss"], 0.25);
  EXPECT_EQ(rows[2]["exit_code"], 3);
  EXPECT_EQ(rows[2]["metrics"], nullptr);
  EXPECT_EQ(rows[3]["state"], nullptr);
}

TEST(SweepRecord, ComesBackAsItWasKept) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(kept_sweep(folder.path()));
  keep_sweep(folder.path(),
             {{.name = "01-a", .sets = {"a=1", "b=\"x,y\""}}, {.name = "02-a", .sets = {"a=\xff", "b="}}});
  const auto trials = kept_sweep(folder.path());
  ASSERT_TRUE(trials);
  ASSERT_EQ(trials->size(), 2U);
  EXPECT_EQ(trials->at(0).name, "01-a");
  EXPECT_EQ(trials->at(0).sets, (std::vector<std::string>{"a=1", "b=\"x,y\""}));
}

TEST(SweepRecord, ThatIsDamagedIsRefusedByName) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() / "sweep.json") << "{\"trials\":[{\"name\":1}]}";
  try {
    kept_sweep(folder.path());
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_HAS(error.what(), "sweep.json' holds no record of a sweep");
  }
}

}  // namespace
}  // namespace lockstep
