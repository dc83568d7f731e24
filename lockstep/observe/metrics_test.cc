// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <random>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "metrics-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path() const { return folder_ / "metrics.jsonl"; }
  MetricsFile file() const {
    return MetricsFile(path(), [] { return std::chrono::system_clock::time_point{}; });
  }

  // Writes the metrics of a run that starts after step `first` and logs each step up to and including `last`.
  void run(std::int64_t first, std::int64_t last) const {
    MetricsFile metrics = file();
    metrics.on(RunStarted{.name = "digits", .run_dir = folder_, .first_step = first});
    for (std::int64_t step = first + 1; step <= last; ++step) {
      metrics.on(StepEnded{.step = step, .samples = 50, .seconds = 0.1, .loss = 1.0 / static_cast<double>(step)});
    }
  }

  std::vector<std::int64_t> logged_steps() const {
    std::vector<std::int64_t> steps;
    for (const auto& line : read_metrics(path()).lines) {
      if (line.event == "step") steps.push_back(line.step);
    }
    return steps;
  }

  std::filesystem::path folder_;
};

TEST_F(MetricsTest, WritesEachEventThatHasNumbersAsOneDocumentedLine) {
  MetricsFile metrics = file();
  metrics.on(RunStarted{.name = "digits", .run_dir = folder_, .world = 2, .epochs = 10, .facts = {{"device", "cpu"}}});
  metrics.on(EpochStarted{.epoch = 0, .steps = 29});
  metrics.on(StepEnded{.step = 1, .epoch = 0, .step_in_epoch = 1, .samples = 50, .seconds = 0.125});
  metrics.on(StepEnded{.step = 2,
                       .epoch = 0,
                       .step_in_epoch = 2,
                       .samples = 50,
                       .seconds = 0.375,
                       .learning_rate = 0.1,
                       .loss = 2.302585092994046});
  metrics.on(ValidationEnded{.step = 29,
                             .epoch = 0,
                             .samples = 360,
                             .seconds = 0.25,
                             .train_loss = 0.5,
                             .metrics = {{"val_accuracy", 0.975}, {"val_loss", 0.125}}});
  metrics.on(SnapshotWritten{
      .step = 29, .epoch = 0, .path = folder_ / "snapshots/step-0000000029", .bytes = 4096, .seconds = 0.5});
  metrics.on(RunEnded{.step = 29,
                      .epochs = 1,
                      .samples = 1437,
                      .stopped_by = "max_epochs",
                      .seconds = 1.5,
                      .samples_per_second = 958,
                      .time_to_first_step_s = 0.25,
                      .metrics = {{"train_loss", 0.5}}});
  EXPECT_EQ(
      text_of_file(path()),
      R"({"event":"run_started","step":0,"time":0.0,"name":"digits","world":2,"epochs":10,"steps_per_epoch":0,)"
      R"("steps_total":0,"batch":0,"global_batch":0,"parameters":0,"first_epoch":0,"resumed_from":null,"facts":{"device":"cpu"}})"
      "\n"
      R"({"event":"step","step":2,"time":0.0,"epoch":0,"step_in_epoch":2,"loss":2.302585092994046,)"
      R"("learning_rate":0.1,"samples_per_second":200.0})"
      "\n"
      R"({"event":"validation","step":29,"time":0.0,"epoch":0,"samples":360,"seconds":0.25,"train_loss":0.5,)"
      R"("metrics":{"val_accuracy":0.975,"val_loss":0.125}})"
      "\n"
      R"({"event":"snapshot","step":29,"time":0.0,"epoch":0,"snapshot":"step-0000000029","bytes":4096,"seconds":0.5})"
      "\n"
      R"({"event":"run_ended","step":29,"time":0.0,"epochs":1,"samples":1437,"stopped_by":"max_epochs","seconds":1.5,)"
      R"("samples_per_second":958.0,"time_to_first_step_s":0.25,"metrics":{"train_loss":0.5}})"
      "\n");
}

TEST_F(MetricsTest, ReadsBackWhatItWroteToTheLastBit) {
  MetricsFile metrics = file();
  metrics.on(RunStarted{.name = "digits", .run_dir = folder_, .facts = {{"device", "cpu"}}});
  metrics.on(StepEnded{.step = 1, .loss = 0.1 + 0.2});
  metrics.on(ValidationEnded{.step = 1, .metrics = {{"val_loss", std::numeric_limits<double>::denorm_min()}}});
  const Metrics read = read_metrics(path());
  ASSERT_EQ(read.lines.size(), 3U);
  EXPECT_TRUE(read.damaged.empty());
  EXPECT_EQ(read.lines[0].texts.at("facts.device"), "cpu");
  EXPECT_EQ(read.lines[1].values.at("loss"), 0.1 + 0.2);
  EXPECT_EQ(read.lines[2].values.at("metrics.val_loss"), std::numeric_limits<double>::denorm_min());
}

TEST_F(MetricsTest, ALossThatIsNotFiniteStaysValidJson) {
  MetricsFile metrics = file();
  metrics.on(RunStarted{.run_dir = folder_});
  metrics.on(StepEnded{.step = 1, .loss = std::nan("")});
  metrics.on(StepEnded{.step = 2, .loss = std::numeric_limits<double>::infinity()});
  const Metrics read = read_metrics(path());
  ASSERT_EQ(read.lines.size(), 3U);
  EXPECT_TRUE(std::isnan(read.lines[1].values.at("loss")));
  EXPECT_TRUE(std::isnan(read.lines[2].values.at("loss")));
}

TEST_F(MetricsTest, AResumedRunGoesOnWithoutOverlap) {
  run(0, 9);
  run(6, 8);
  EXPECT_EQ(logged_steps(), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  const Metrics read = read_metrics(path());
  EXPECT_EQ(read.lines[7].event, "run_started");
  EXPECT_EQ(read.lines[7].step, 6);
}

// The event of a snapshot comes once the snapshot is on disk. Later steps may have been made by then.
TEST_F(MetricsTest, AResumedRunKeepsTheLateLineOfASnapshotAndNotTheStepsBeforeIt) {
  const auto snapshot = [](std::int64_t step) { return SnapshotWritten{.step = step, .path = "step"}; };
  {
    MetricsFile metrics = file();
    metrics.on(RunStarted{.run_dir = folder_});
    for (std::int64_t step = 1; step <= 6; ++step) {
      metrics.on(StepEnded{.step = step, .loss = 1});
      if (step == 3) metrics.on(snapshot(1));
      if (step == 5) metrics.on(snapshot(3));
    }
  }
  run(3, 4);
  std::vector<std::string> found;
  for (const auto& line : read_metrics(path()).lines) found.push_back(line.event + " " + std::to_string(line.step));
  EXPECT_EQ(found, (std::vector<std::string>{"run_started 0", "step 1", "step 2", "step 3", "snapshot 1", "snapshot 3",
                                             "run_started 3", "step 4"}));
  EXPECT_EQ(metrics_from(path(), 3).size(), 4U) << "step, snapshot, start and step";
}

TEST_F(MetricsTest, EverySplitOfALineByACrashIsDroppedOnResume) {
  run(0, 3);
  const std::string whole = text_of_file(path());
  const std::size_t line_two = whole.find("{\"event\":\"step\",\"step\":3");
  for (std::size_t cut = line_two; cut < whole.size(); ++cut) {
    write_whole(path(), std::string_view(whole).substr(0, cut), false);
    run(2, 4);
    EXPECT_EQ(logged_steps(), (std::vector<std::int64_t>{1, 2, 3, 4})) << "torn at byte " << cut;
    EXPECT_TRUE(read_metrics(path()).damaged.empty());
  }
}

TEST_F(MetricsTest, AFreshStartInAnOldFolderDropsTheOldCurve) {
  run(0, 5);
  run(0, 2);
  EXPECT_EQ(logged_steps(), (std::vector<std::int64_t>{1, 2}));
}

// Returns the epochs whose validations a reader of the file gets.
std::vector<double> validated_epochs(const std::filesystem::path& path) {
  std::vector<double> epochs;
  for (const auto& line : read_metrics(path).lines) {
    if (line.event == "validation") epochs.push_back(line.values.at("epoch"));
  }
  return epochs;
}

// The run has two epochs of 29 steps, and is killed after the second validation. The snapshot of step 58 does not count
// that epoch as completed.
TEST_F(MetricsTest, AValidationThatAResumedRunDoesAgainIsCut) {
  {
    MetricsFile metrics = file();
    metrics.on(RunStarted{.run_dir = folder_});
    metrics.on(ValidationEnded{.step = 29, .epoch = 0, .metrics = {{"val_loss", 0.5}}});
    metrics.on(StepEnded{.step = 58, .epoch = 1, .loss = 0.25});
    metrics.on(SnapshotWritten{.step = 58, .epoch = 1, .path = "step-0000000058"});
    metrics.on(ValidationEnded{.step = 58, .epoch = 1, .metrics = {{"val_loss", 0.25}}});
  }
  MetricsFile metrics = file();
  metrics.on(RunStarted{.run_dir = folder_, .first_step = 58, .first_epoch = 1});
  EXPECT_EQ(validated_epochs(path()), (std::vector<double>{0}));
  const auto text = text_of_file(path());
  EXPECT_EQ(text.find(R"("val_loss":0.25)"), std::string::npos) << text;
  EXPECT_EQ(logged_steps(), (std::vector<std::int64_t>{58}));
  metrics.on(ValidationEnded{.step = 58, .epoch = 1, .metrics = {{"val_loss", 0.25}}});
  EXPECT_EQ(validated_epochs(path()), (std::vector<double>{0, 1}));
}

// The last line is that of a snapshot, so the file keeps all lines.
TEST_F(MetricsTest, AReaderLeavesOutAValidationThatALaterStartDoesAgain) {
  {
    MetricsFile metrics = file();
    metrics.on(RunStarted{.run_dir = folder_});
    metrics.on(ValidationEnded{.step = 29, .epoch = 0});
    metrics.on(ValidationEnded{.step = 58, .epoch = 1});
    metrics.on(SnapshotWritten{.step = 58, .epoch = 1, .path = "step-0000000058"});
  }
  MetricsFile metrics = file();
  metrics.on(RunStarted{.run_dir = folder_, .first_step = 58, .first_epoch = 1});
  EXPECT_EQ(validated_epochs(path()), (std::vector<double>{0}));
  metrics.on(ValidationEnded{.step = 58, .epoch = 1});
  metrics.on(RunStarted{.run_dir = folder_, .first_step = 58, .first_epoch = 2});
  EXPECT_EQ(validated_epochs(path()), (std::vector<double>{0, 1}));
}

// Older versions did not write this key, so their lines do not tell which validations they repeat.
TEST_F(MetricsTest, AStartThatDoesNotTellItsFirstEpochLeavesNothingOut) {
  const std::string validation = R"({"event":"validation","step":29,"epoch":0,"metrics":{}})"
                                 "\n";
  write_whole(path(),
              validation +
                  R"({"event":"run_started","step":29})"
                  "\n" +
                  validation,
              false);
  EXPECT_EQ(validated_epochs(path()), (std::vector<double>{0, 0}));
}

TEST_F(MetricsTest, FindsTheCutInAFileOfManyWindows) {
  run(0, 4000);
  ASSERT_GT(std::filesystem::file_size(path()), 4U * 65536U);
  run(10, 11);
  EXPECT_EQ(logged_steps().size(), 11U);
}

TEST_F(MetricsTest, LeavesAnotherProgramsFileAlone) {
  const std::string theirs = "epoch,loss\n1,0.5\n";
  write_whole(path(), theirs, false);
  try {
    run(0, 1);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("not a metrics line of Lockstep"), std::string::npos) << error.what();
  }
  EXPECT_EQ(text_of_file(path()), theirs);
}

TEST_F(MetricsTest, NamesTheFileThatCannotBeOpened) {
  MetricsFile metrics(folder_ / "missing" / "metrics.jsonl");
  try {
    metrics.on(RunStarted{});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_NE(std::string(error.what()).find("missing/metrics.jsonl' failed: No such file"), std::string::npos)
        << error.what();
  }
}

TEST_F(MetricsTest, AFullDiskEndsTheRunWithAWayOut) {
  MetricsFile metrics("/dev/full");
  try {
    metrics.on(RunStarted{});
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
  }
}

TEST_F(MetricsTest, TheReaderLeavesOutATornLastLineAndCountsDamagedOnes) {
  run(0, 2);
  const std::string whole = text_of_file(path());
  write_whole(path(), whole + "not json\n[1]\n{\"event\":\"step\"}\n" + whole + "{\"event\":\"st", false);
  const Metrics read = read_metrics(path());
  EXPECT_EQ(read.lines.size(), 6U);
  EXPECT_EQ(read.damaged, (std::vector<std::int64_t>{4, 5, 6}));
}

TEST_F(MetricsTest, APathThatIsNoUtf8CostsNoLine) {
  MetricsFile metrics = file();
  metrics.on(RunStarted{.name = "caf\xe9", .run_dir = folder_});
  EXPECT_EQ(read_metrics(path()).lines.size(), 1U);
}

TEST_F(MetricsTest, NeitherReaderNorResumeFallsOverDamagedBytes) {
  run(0, 20);
  const std::string whole = text_of_file(path());
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole.substr(0, random() % (whole.size() + 1));
    for (std::uint64_t flips = random() % 20; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    write_whole(path(), damaged, false);
    const Metrics read = read_metrics(path());
    EXPECT_LE(read.lines.size() + read.damaged.size(), 30U + 20U);
    try {
      run(10, 11);
      EXPECT_EQ(logged_steps().back(), 11);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kEnvironment) << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
