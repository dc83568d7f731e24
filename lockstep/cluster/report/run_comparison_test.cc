// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/run_comparison.h"

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct Shown {
  int ranks = 1;
  double batch = 32;
  double step_s = 0.1;
  std::int64_t steps_per_epoch = 10;
  std::map<std::string, std::string> settings{};
  std::int64_t parameters = 1000;
};

RunReport run_of(const Shown& shown) {
  RunReport report{.name = "run"};
  report.settings = {{"model.name", "\"mlp\""}, {"trainer.strategy", "\"auto\""}};
  for (const auto& [key, value] : shown.settings) report.settings[key] = value;
  TrainingReport training;
  auto& run = training.figures;
  run.ranks = shown.ranks;
  run.batch = shown.batch;
  run.global_batch = static_cast<std::int64_t>(shown.batch) * shown.ranks;
  run.step_s = shown.step_s;
  run.epoch_s = shown.step_s * static_cast<double>(shown.steps_per_epoch);
  run.samples_per_second = static_cast<double>(run.global_batch) / shown.step_s;
  training.steps_per_epoch = shown.steps_per_epoch;
  training.parameters = shown.parameters;
  report.training = training;
  return report;
}

std::string words_of(const std::vector<RunReport>& reports) { return joined(compared(reports).sentences, "\n"); }

TEST(RunComparisons, TellWhatDdpCostsWithTheSameBatchForEachRank) {
  const auto words = words_of({run_of({}), run_of({.ranks = 2, .step_s = 0.125, .steps_per_epoch = 5})});
  EXPECT_HAS(words,
             "An epoch has 5 steps on 2 ranks and 10 on 1: each step takes the batch of every rank, 64 samples "
             "against 32.");
  EXPECT_HAS(words,
             "a step takes 125 ms where one rank's takes 100 ms: averaging gradients and waiting cost 25.00 ms a "
             "step (25 %).");
}

TEST(RunComparisons, TellHowFarTheSameGlobalBatchIsFromAnEvenShare) {
  const auto words = words_of({run_of({}), run_of({.ranks = 2, .batch = 16, .step_s = 0.08})});
  EXPECT_HAS(words,
             "An epoch has the same 10 steps on 2 ranks as on 1: the global batch of 32 is shared out, 16 samples "
             "to each against 32.");
  EXPECT_HAS(words, "for a rank's 16 samples an even share of that would be 50.00 ms, so 30.00 ms a step (38 %)");
}

TEST(RunComparisons, HoldDpAgainstDdpOnAsManyDevices) {
  const Shown dp{.step_s = 0.2, .settings = {{"trainer.strategy", "\"dp\""}, {"trainer.devices", "2"}}};
  const auto comparison = compared({run_of({}), run_of({.ranks = 2, .batch = 16}), run_of(dp)});
  EXPECT_HAS(joined(comparison.sentences, "\n"),
             "DP on 2 devices: an epoch takes 2.00 s, with DDP on 2 ranks 1.00 s: 1.00 s (100 %) more (160 against 320 "
             "samples/s).");
  EXPECT_EQ(comparison.rows.at(2).run.label, "trainer.strategy=dp");
  EXPECT_EQ(comparison.rows.at(1).run.label, "");
}

TEST(RunComparisons, HoldModelsAgainstTheirParameters) {
  const auto words =
      words_of({run_of({.step_s = 0.3, .settings = {{"model.name", "\"resnet152\""}}, .parameters = 60000000}),
                run_of({.settings = {{"model.name", "\"resnet50\""}}, .parameters = 25000000})});
  EXPECT_HAS(words,
             "model.name=resnet50 takes 1.00 s an epoch, model.name=resnet152 3.00 s: 3.00 times as fast, with 25.0 M "
             "parameters against 60.0 M: by their number alone it would be 2.40 times.");
}

TEST(RunComparisons, TellWhatALargerBatchBrings) {
  const auto words = words_of({run_of({.batch = 64, .step_s = 0.15, .settings = {{"data.batch", "64"}}}),
                               run_of({.settings = {{"data.batch", "32"}}})});
  EXPECT_HAS(words, "A batch of 64 for each rank trains 427 samples/s, one of 32 320: 1.33 times as fast.");
}

TEST(RunComparisons, LeaveOutRunsWithoutSteps) {
  auto waiting = run_of({});
  waiting.training.reset();
  const auto comparison = compared({run_of({}), waiting});
  EXPECT_EQ(comparison.rows.size(), 1U);
  EXPECT_HAS(joined(comparison.sentences, "\n"), "'run' has no steps to compare");
}

TEST(RunComparisons, OfProgramsTakeTheTimeThatTheyTook) {
  std::vector<RunReport> reports;
  for (const int nodes : {1, 2}) {
    RunReport report{
        .path = "/runs/" + std::to_string(nodes), .state = RunState::kEnded, .nodes = nodes, .tasks = 4 * nodes};
    report.alive_s = nodes == 1 ? 90 : 50;
    report.job = JobRecord{.command = "python train.py", .billing = {.unit = "GPU-hours", .per_hour = 4.0 * nodes}};
    reports.push_back(report);
  }
  const auto same = compared(reports);
  EXPECT_EQ(text_table(scaling_table(same.rows)),
            "nodes  ranks  time (s)  speed-up  efficiency  GPU-hours\n"
            "    1      4     90.00      1.00       100 %    0.10000\n"
            "    2      8     50.00      1.80        90 %    0.11111\n");
  EXPECT_TRUE(same.sentences.empty());
  reports[1].job->command = "python train.py --large";
  EXPECT_EQ(compared(reports).rows[1].run.label, "python train.py --large");
  reports[1].state = RunState::kFailed;
  EXPECT_EQ(compared(reports).rows.size(), 1U);
  EXPECT_EQ(compared(reports).sentences.size(), 1U);
}

}  // namespace
}  // namespace lockstep
