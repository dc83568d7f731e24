// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/report/run_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/report/json.h"
#include "lockstep/cluster/report/page.h"
#include "lockstep/cluster/report/sections.h"
#include "lockstep/cluster/report/text.h"
#include "lockstep/cluster/report/verdict.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

std::string started(double time, int step, const std::string& more = "") {
  return R"({"event":"run_started","step":)" + std::to_string(step) + R"(,"time":)" + std::to_string(time) +
         R"(,"name":"x","world":2,"epochs":3,"steps_per_epoch":10,"steps_total":30,"batch":20,"global_batch":40,)" +
         R"("parameters":1000,"facts":{"device":"cpu","threads":"2")" + more + "}}\n";
}

std::string step(double time, int at, double rate) {
  return R"({"event":"step","step":)" + std::to_string(at) + R"(,"time":)" + std::to_string(time) +
         R"(,"epoch":0,"loss":0.5,"samples_per_second":)" + std::to_string(rate) + "}\n";
}

std::string validation(double time, int at, double seconds, double loss) {
  return R"({"event":"validation","step":)" + std::to_string(at) + R"(,"time":)" + std::to_string(time) +
         R"(,"seconds":)" + std::to_string(seconds) + R"(,"train_loss":0.4,"metrics":{"val_loss":)" +
         std::to_string(loss) + "}}\n";
}

std::string snapshot(double time, int at, double seconds) {
  return R"({"event":"snapshot","step":)" + std::to_string(at) + R"(,"time":)" + std::to_string(time) +
         R"(,"seconds":)" + std::to_string(seconds) + R"(,"snapshot":"step-)" + std::to_string(at) + "\"}\n";
}

/// A run of three epochs, each with ten steps of 40 samples. A step takes 0.2 s, but the first five take 0.6 s. After
/// each epoch, validation takes 0.5 s and a snapshot 0.25 s. So the first epoch takes 3 + 1 + 0.75 = 4.75 s, and the
/// others 2.75 s.
std::string three_epochs() {
  return started(100, 0) + step(103, 5, 200 / 3.0) + step(104, 10, 200) + validation(104.5, 10, 0.5, 0.9) +
         snapshot(104.75, 10, 0.25) + step(105.75, 15, 200) + step(106.75, 20, 200) + validation(107.25, 20, 0.5, 0.3) +
         snapshot(107.5, 20, 0.25) + step(108.5, 25, 200) + step(109.5, 30, 200) + validation(110, 30, 0.5, 0.4) +
         snapshot(110.25, 30, 0.25);
}

std::string ended(double time) {
  return R"({"event":"run_ended","step":30,"time":)" + std::to_string(time) +
         R"(,"epochs":3,"samples":1200,"stopped_by":"max_epochs","seconds":10.25,"samples_per_second":150,)" +
         R"("time_to_first_step_s":0.5,"metrics":{"val_loss":0.4,"train_loss":0.1}})" + "\n";
}

fs::path run_with(const fs::path& path, const std::string& metrics, bool is_finished = false) {
  make_folder(path / "snapshots");
  write_whole(path / "metrics.jsonl", metrics, false);
  write_whole(path / "layout.json", R"({"nodes":1,"world":2})", false);
  if (is_finished) write_whole(path / "result.json", "{}\n", false);
  return path;
}

RunReport reported(const fs::path& path) { return run_report(path, std::nullopt, Environment({})); }

TEST(RunReports, TellWhereEachEpochsTimeWent) {
  const TemporaryFolder folder;
  const auto report = reported(run_with(folder.path() / "run", three_epochs() + ended(110.25), true));
  EXPECT_EQ(report.state, RunState::kFinished);
  EXPECT_EQ(report.tasks, 2);
  EXPECT_EQ(report.stopped_by, "max_epochs");
  EXPECT_EQ(report.facts.at("threads"), "2");
  EXPECT_DOUBLE_EQ(report.alive_s, 10.75);
  ASSERT_TRUE(report.training);
  const auto& training = *report.training;
  EXPECT_EQ(training.epochs_done, 3);
  ASSERT_EQ(training.epochs.size(), 3U);
  EXPECT_NEAR(training.epochs[0].seconds, 4.75, 1e-6);
  EXPECT_NEAR(training.epochs[0].phases_s[0], 4, 1e-6);
  EXPECT_NEAR(training.epochs[1].seconds, 2.75, 1e-6);
  EXPECT_NEAR(training.epochs[2].phases_s[0], 2, 1e-6);
  EXPECT_NEAR(training.epochs[2].phases_s[1], 0.5, 1e-6);
  EXPECT_NEAR(training.epochs[2].phases_s[2], 0.25, 1e-6);
  EXPECT_NEAR(training.epochs[2].phases_s[3], 0, 1e-6);
  EXPECT_EQ(training.metrics.at("train_loss"), 0.1);
}

TEST(RunReports, TellWhatTheFirstEpochsSlownessIsMadeOf) {
  const TemporaryFolder folder;
  const auto report = reported(run_with(folder.path() / "run", three_epochs() + ended(110.25)));
  ASSERT_TRUE(report.training->first_epoch);
  const auto& first = *report.training->first_epoch;
  EXPECT_NEAR(first.seconds - first.later_s, 2, 1e-6);
  EXPECT_NEAR(first.more_s[0], 2, 1e-6);
  EXPECT_EQ(first.first_steps, 5);
  EXPECT_NEAR(first.first_steps_more_s, 5 * (0.6 - 0.2), 1e-6);
  const auto words = first_epoch_words(*report.training);
  EXPECT_HAS(words, "The first epoch took 4.75 s; the median of the later ones is 2.75 s: 2.00 s (73 %) more.");
  EXPECT_HAS(words, "2.00 s in training.");
  EXPECT_HAS(words, "Its first 5 steps alone took 2.00 s more");
  EXPECT_HAS(words, "500 ms to the first step");
}

TEST(RunReports, AddUpOverStartsOfDifferentSizes) {
  const TemporaryFolder folder;
  auto later = started(200, 30) + ended(210.25);
  later.replace(later.find(R"("world":2)"), 9, R"("world":4)");
  const auto path = run_with(folder.path() / "run", three_epochs() + ended(110.25) + later, true);
  write_whole(path / "layout.json", R"({"nodes":2,"world":4})", false);
  const auto report = reported(path);
  // Each start took 10.75 s, the first on one node and the second on two.
  EXPECT_EQ(report.sizes, (std::vector<int>{1, 2}));
  EXPECT_DOUBLE_EQ(report.node_hours(), 3 * 10.75 / 3600);
  EXPECT_HAS(report_text({.runs = {report}, .tunnels = {""}}), "1, 2 nodes, start by start");
  EXPECT_TRUE(reported(run_with(folder.path() / "same", three_epochs() + ended(110.25), true)).sizes.empty());
}

TEST(RunReports, GoAsFarAsARunThatHasNotEnded) {
  const TemporaryFolder folder;
  const auto text = three_epochs();
  // The file is cut off in the third epoch. Its last complete line is step 25.
  const auto metrics = text.substr(0, text.find(R"({"event":"step","step":30)")) + R"({"event":"st)";
  const auto report = reported(run_with(folder.path() / "run", metrics));
  EXPECT_EQ(report.state, RunState::kUnknown);
  const auto& training = *report.training;
  EXPECT_EQ(training.steps_done, 25);
  EXPECT_DOUBLE_EQ(training.epochs_done, 2.5);
  EXPECT_FALSE(training.time_to_first_step_s);
  ASSERT_EQ(training.epochs.size(), 3U);
  EXPECT_FALSE(training.epochs[2].is_whole);
  EXPECT_EQ(training.epochs[2].steps, 5);
  EXPECT_NEAR(training.epochs[2].seconds, 1, 1e-6);
  // The run took 8.5 s for 2.5 epochs, of which 3 + 1 + 2 + 1 s are steps.
  EXPECT_NEAR(training.figures.epoch_s, 8.5 / 2.5, 1e-6);
  EXPECT_NEAR(training.figures.phases_s[0], 7 / 2.5, 1e-6);
  EXPECT_NEAR(training.figures.samples_per_second, 1000 / 7.0, 1e-6);
}

TEST(RunReports, AddUpSeveralStartsWithoutWhatLiesBetween) {
  const TemporaryFolder folder;
  const auto first = started(100, 0) + step(103, 5, 200 / 3.0) + step(104, 10, 200) + snapshot(104.25, 10, 0.25);
  const auto second =
      started(1000, 10) + step(1001, 15, 200) + step(1002, 20, 200) + step(1004, 30, 200) +
      R"({"event":"run_ended","step":30,"time":1004,"epochs":3,"samples":1200,"stopped_by":"max_epochs",)" +
      R"("seconds":4,"samples_per_second":200,"time_to_first_step_s":1})" + "\n";
  const auto report = reported(run_with(folder.path() / "run", first + second, true));
  EXPECT_EQ(report.starts, 2);
  EXPECT_DOUBLE_EQ(report.alive_s, 4.25 + 5);
  EXPECT_DOUBLE_EQ(*report.last - *report.started, 904);
  EXPECT_EQ(report.training->epochs.size(), 3U);
  EXPECT_NEAR(report.training->epochs[1].seconds, 2, 1e-6);
  EXPECT_NEAR(report.training->epochs[2].seconds, 2, 1e-6);
  EXPECT_EQ(report.training->figures.steps, 20) << "figures are of the last start";
}

TEST(RunReports, NameTheBestSnapshotThatIsStillThere) {
  const TemporaryFolder folder;
  const auto run = run_with(folder.path() / "run", three_epochs() + ended(110.25));
  EXPECT_FALSE(reported(run).training->snapshot);
  for (const auto* name : {"step-10", "step-20", "step-30"}) make_folder(run / "snapshots" / name);
  const auto by_loss = reported(run).training->snapshot;
  EXPECT_EQ(by_loss->name, "step-20");
  EXPECT_EQ(by_loss->metrics.at("val_loss"), 0.3);
  fs::create_directory_symlink("step-30", run / "snapshots" / "best");
  EXPECT_EQ(reported(run).training->snapshot->name, "step-30");
}

TEST(RunReports, TakeAProgramOfWhichOnlyItsNodesTell) {
  const TemporaryFolder folder;
  const auto run = folder.path() / "python";
  make_folder(run);
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_start(100, 2, 4);
    NodeSample sample{.time = 102};
    sample.devices.push_back({.pci = "a", .busy_percent = 40, .power_watts = 3600.0});
    file.write_sample(sample);
    sample.time = 112;
    file.write_sample(sample);
    file.write_warning(112, "device-idle", "device 0 <idle>\n  hint: start one task for each device");
    file.write_end(120);
  }
  const auto report = reported(run);
  EXPECT_EQ(report.state, RunState::kEnded);
  EXPECT_EQ(report.tasks, 4);
  EXPECT_EQ(report.starts, 1);
  EXPECT_DOUBLE_EQ(report.node_hours(), 20 / 3600.0);
  const auto verdict = verdict_of(report);
  EXPECT_EQ(verdict.limit, "idle");
  EXPECT_HAS(verdict.text, "Devices did nothing in 60 % of the time (12.0 s of 20.0 s)");
  const ReportPage page{.runs = {report}, .tunnels = {""}};
  EXPECT_HAS(report_text(page), "0.01 kWh, from the 1 of 1 device that report power");
  // The hint has a line of its own, and no line is wider than the page.
  EXPECT_HAS(report_text(page),
             "  device-idle on n1  device 0 <idle> (since 1970-01-01 00:01:52 UTC, to the end)\n"
             "                     Try: start one task for each device\n");
  for (const auto& line : split(report_text(page), '\n')) EXPECT_LE(width_of(line), 100U) << line;
  EXPECT_EQ(report_json(page).at("runs").at(0).at("findings").at(0).at("hint"), "start one task for each device");
  const auto json = report_json(page);
  EXPECT_TRUE(json.at("runs").at(0).at("training").is_null());
  EXPECT_DOUBLE_EQ(json.at("runs").at(0).at("energy_kwh").get<double>(), 0.01);
  EXPECT_TRUE(json.at("scaling").is_null());
}

TEST(RunReports, TellTheEnergyOfASample) {
  const TemporaryFolder folder;
  const auto run = run_with(folder.path() / "run", three_epochs() + ended(110.25), true);
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_start(100, 2, 2);
    for (const double time : {100.0, 110.0}) {
      NodeSample sample{.time = time};
      sample.devices.push_back({.pci = "a", .busy_percent = 40, .power_watts = 432.0});
      file.write_sample(sample);
    }
  }
  // 4320 J for 30 steps of 40 samples are 3.6 J for each sample.
  const auto report = reported(run);
  ASSERT_TRUE(report.kwh_per_sample());
  EXPECT_NEAR(*report.kwh_per_sample(), 1e-6, 1e-12);
  EXPECT_HAS(report_text({.runs = {report}, .tunnels = {""}}), "1e-06 kWh a sample");
}

TEST(RunReports, GiveEachColumnOneUnit) {
  const TemporaryFolder folder;
  const auto text = report_text(
      {.runs = {reported(run_with(folder.path() / "run", three_epochs() + ended(110.25)))}, .tunnels = {""}});
  EXPECT_HAS(text,
             "  epoch  steps  time (s)  training (s)  validation (ms)  snapshots (ms)  rest (s)\n"
             "      1     10     4.750         4.000            500.0           250.0         0\n"
             "      2     10     2.750         2.000            500.0           250.0         0\n");
}

TEST(RunReports, RefuseAFolderWithoutAnythingToReport) {
  const TemporaryFolder folder;
  write_whole(folder.path() / "telemetry-n1.jsonl", "", false);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { reported(folder.path()); }), "holds nothing to report");
}

TEST(Verdicts, NameWhatTakesMostOfTheTime) {
  const TemporaryFolder folder;
  // The 10.75 s are 0.5 s start, 8 s steps, 1.5 s validation and 0.75 s snapshots.
  const auto verdict = verdict_of(reported(run_with(folder.path() / "run", three_epochs() + ended(110.25), true)));
  EXPECT_EQ(verdict.limit, "validation");
  EXPECT_HAS(verdict.text, "Validation takes 1.50 s of 10.8 s (14 %): without it the run would be 1.16 times as fast.");
  EXPECT_HAS(verdict.hint, "trainer.validate_every");
}

TEST(Verdicts, CallTasksStuckUntilTheyGoOn) {
  const TemporaryFolder folder;
  const auto run = run_with(folder.path() / "run", three_epochs());
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_warning(111, "tasks-stuck", "no task has done anything for 60 s");
  }
  EXPECT_EQ(verdict_of(reported(run)).limit, "stuck");
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_warning_over(120, "tasks-stuck");
  }
  EXPECT_NE(verdict_of(reported(run)).limit, "stuck");
}

TEST(Verdicts, TellARunThatBrokeOff) {
  const TemporaryFolder folder;
  const auto run = run_with(folder.path() / "run", three_epochs());
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_start(99, 2, 2);
    file.write_end(112);
  }
  const auto verdict = verdict_of(reported(run));
  EXPECT_EQ(verdict.limit, "broken");
  EXPECT_HAS(verdict.text, "It broke off after step 30, last heard of at 1970-01-01 00:01:52 UTC");
}

TEST(Verdicts, TellCoresThatWaitInStepsFromTheStart) {
  const TemporaryFolder folder;
  const auto run = run_with(folder.path() / "run", three_epochs() + ended(110.25), true);
  {
    TelemetryFile file(run / "telemetry-n1.jsonl", "n1");
    file.write_start(99.5, 2, 2);
    for (const auto& [time, cpu] : {std::pair(100.0, 0.0), std::pair(110.0, 5.0)}) {
      NodeSample sample{.time = time};
      sample.tasks.push_back({.task = {.pid = 7}, .used = {.cpu_seconds = cpu}});
      file.write_sample(sample);
    }
  }
  // Half a core of two threads: three quarters of 10.75 s are idle, 2.75 s of which may be outside of the 8 s of steps.
  const auto verdict = verdict_of(reported(run));
  EXPECT_EQ(verdict.limit, "idle");
  EXPECT_HAS(verdict.text,
             "Each task used 0.5 cores on average and has 2 threads to compute with; its steps waited at least 5.31 s");
}

}  // namespace
}  // namespace lockstep
