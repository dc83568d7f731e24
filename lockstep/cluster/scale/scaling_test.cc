// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/record/scaling.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/file.h"
#include "lockstep/cluster/job/submission.h"
#include "lockstep/cluster/record/scaling_chart.h"
#include "lockstep/cluster/scale/study.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

struct Recorded {
  int nodes = 1;
  int ranks = 2;
  double seconds = 10;  ///< Of two epochs of ten steps.
  double rate = 100;    ///< Samples a second in steps.
};

/// A run of two epochs. Each has ten steps of 40 samples, one second of validation and half a second of snapshots.
fs::path recorded_run(const fs::path& path, const Recorded& run, bool has_ended = true) {
  make_folder(path);
  write_whole(path / "recipe.toml", "", false);
  write_whole(path / "layout.json",
              nlohmann::json{{"nodes", run.nodes}, {"world", run.ranks}, {"local_world", run.ranks / run.nodes}}.dump(),
              false);
  std::string lines = R"({"event":"run_started","step":0,"time":100,"world":)" + std::to_string(run.ranks) +
                      R"(,"epochs":2,"steps_per_epoch":10,"batch":)" + std::to_string(40 / run.ranks) +
                      R"(,"global_batch":40})" + "\n";
  for (const int epoch : {1, 2}) {
    lines += R"({"event":"validation","step":)" + std::to_string(10 * epoch) + R"(,"time":1,"seconds":0.5})" + "\n";
    lines += R"({"event":"snapshot","step":)" + std::to_string(10 * epoch) + R"(,"time":1,"seconds":0.25})" + "\n";
  }
  if (has_ended) {
    lines += R"({"event":"run_ended","step":20,"time":110,"epochs":2,"samples":800,"seconds":)" +
             std::to_string(run.seconds) + R"(,"samples_per_second":)" + std::to_string(run.rate) +
             R"(,"time_to_first_step_s":2.5})" + "\n";
    write_whole(path / "result.json", "{}\n", false);
  }
  write_whole(path / "metrics.jsonl", lines, false);
  return path;
}

TEST(RunFigures, ComeFromTheRunsOwnRecord) {
  const TemporaryFolder folder;
  const auto run = figures_of_run(recorded_run(folder.path() / "run", {}));
  EXPECT_EQ(run.ranks, 2);
  EXPECT_EQ(run.batch, 20);
  EXPECT_DOUBLE_EQ(run.step_s, 800.0 / 100 / 20);
  EXPECT_DOUBLE_EQ(run.epoch_s, 5);
  EXPECT_DOUBLE_EQ(run.phases_s[0], 4);
  EXPECT_DOUBLE_EQ(run.phases_s[1], 0.5);
  EXPECT_DOUBLE_EQ(run.phases_s[2], 0.25);
  EXPECT_DOUBLE_EQ(run.phases_s[3], 0.25);
  EXPECT_DOUBLE_EQ(run.run_s, 12.5);
  EXPECT_DOUBLE_EQ(run.node_hours(), 12.5 / 3600);
}

TEST(RunFigures, WantARunThatHasEnded) {
  const TemporaryFolder folder;
  const auto run = recorded_run(folder.path() / "run", {}, /*has_ended=*/false);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { figures_of_run(run); }), "has not ended");
}

std::vector<ScalingRow> three_rows(const fs::path& folder) {
  return scaling_rows(
      {figures_of_run(recorded_run(folder / "4", {.nodes = 4, .ranks = 8, .seconds = 5, .rate = 250})),
       figures_of_run(recorded_run(folder / "1", {.nodes = 1, .ranks = 2})),
       figures_of_run(recorded_run(folder / "2", {.nodes = 2, .ranks = 4, .seconds = 5.2, .rate = 210}))});
}

TEST(ScalingRows, CompareWithTheFewestRanks) {
  const TemporaryFolder folder;
  const auto rows = three_rows(folder.path());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].run.ranks, 2);
  EXPECT_EQ(rows[0].speed_up, 1);
  EXPECT_DOUBLE_EQ(rows[1].speed_up, 10 / 5.2);
  EXPECT_DOUBLE_EQ(rows[2].efficiency, 10.0 / 5 / 4);
  EXPECT_EQ(rows[0].limit, "training");
  EXPECT_EQ(rows[1].limit, "none");
  // An epoch takes 2.5 s. Training is 1.6 s of it with a share of 1. The rest is 0.15 s with a share of 0.0625.
  EXPECT_EQ(rows[2].limit, "training");
}

TEST(ScalingRows, KeepWhatIsVariedApart) {
  const TemporaryFolder folder;
  auto small = figures_of_run(recorded_run(folder.path() / "a", {.ranks = 2}));
  auto large = figures_of_run(recorded_run(folder.path() / "b", {.ranks = 4, .seconds = 40, .rate = 25}));
  small.label = "model.name=mlp";
  large.label = "model.name=cnn";
  const auto rows = scaling_rows({large, small});
  EXPECT_EQ(rows[0].run.label, "model.name=cnn");
  EXPECT_EQ(rows[0].speed_up, 1);
  EXPECT_EQ(rows[1].speed_up, 1);
  EXPECT_EQ(scaling_table(rows)[0][0], "varied");
}

TEST(ScalingTables, AreMarkdownAndCsvAndJson) {
  const TemporaryFolder folder;
  const auto rows = three_rows(folder.path());
  const auto table = scaling_table(rows);
  EXPECT_HAS(markdown_table(table),
             "| nodes | ranks | batch | step (ms) | time per epoch (s) | speed-up | efficiency |");
  EXPECT_HAS(markdown_table(table), "| 4 | 8 | 5 | 160.0 | 2.500 | 2.00 | 50 % |");
  EXPECT_HAS(csv_table(table), "1,2,20,400.0,5.000,1.00,100 %,");
  EXPECT_EQ(scaling_json(rows).at(2).at("phases_s").at("validation"), 0.5);
  EXPECT_EQ(csv_table({{"a,b", "c\"d"}}), "\"a,b\",\"c\"\"d\"\r\n");
}

TEST(ScalingTables, CountWhatTheSiteBills) {
  const TemporaryFolder folder;
  const auto run = recorded_run(folder.path() / "run", {});
  write_whole(run / "job.json", R"({"billing":{"unit":"GPU-hours","per_hour":4}})", false);
  const auto rows = scaling_rows({figures_of_run(run)});
  EXPECT_DOUBLE_EQ(rows[0].run.billed_hours(), 4 * 12.5 / 3600);
  EXPECT_HAS(markdown_table(scaling_table(rows)), "| GPU-hours |");
  EXPECT_HAS(markdown_table(scaling_table(rows)), "| 0.01389 |");
  const auto others = scaling_rows({figures_of_run(run), figures_of_run(recorded_run(folder.path() / "local", {}))});
  EXPECT_HAS(markdown_table(scaling_table(others)), "| node-hours |") << "units of two sites do not mix";
}

TEST(ScalingCharts, DrawALineForEachLabelBesideTheIdeal) {
  const TemporaryFolder folder;
  const auto svg = scaling_chart(three_rows(folder.path()));
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_HAS(svg, "stroke-dasharray");
  EXPECT_HAS(svg, "<polyline");
  EXPECT_HAS(scaling_chart(scaling_rows({figures_of_run(folder.path() / "1")})), "<circle") << "one point";
}

TEST(Studies, HaveAPointForEachNumberOfNodesAndValue) {
  const auto points = study_points({1, 2}, {"model.name=mlp,cnn"});
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[1].nodes, 2);
  EXPECT_EQ(points[1].label(), "model.name=mlp");
  EXPECT_EQ(points[2].folder, "02-name-cnn-nodes-1");
  EXPECT_EQ(study_points({1, 2, 4}, {}).size(), 3U);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [] { study_points({1}, {"model.name"}); }),
             "--vary: 'model.name' varies nothing");
}

TEST(Studies, AreReadBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const Study study{
      .folder = folder.path() / "study", .command = "lockstep scale digits", .points = study_points({1, 4}, {})};
  EXPECT_FALSE(read_study(study.folder));
  write_study(study);
  const auto back = read_study(study.folder);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->command, study.command);
  EXPECT_EQ(back->points.at(1).folder, "01-nodes-4");
  write_whole(study.folder / "study.json", "{}", false);
  EXPECT_HAS(message_of(ErrorKind::kData, [&] { read_study(study.folder); }), "holds no study");
}

TEST(Studies, TellWhereEachRunStands) {
  const TemporaryFolder folder;
  const Study study{.folder = folder.path(), .points = study_points({1, 2, 4, 8}, {})};
  const auto submit = [&](std::size_t i, const std::string& job) {
    const auto run_dir = study.run_dir(study.points[i]);
    make_folder(run_dir);
    const nlohmann::json record = {{"job", job},        {"name", "x"},  {"cluster", "generic"},
                                   {"command", "x"},    {"nodes", 1},   {"tasks", 1},
                                   {"is_recipe", true}, {"time_s", 60}, {"submitted", 0}};
    write_whole(run_dir / "job.json", record.dump(), false);
  };
  submit(0, "10");
  recorded_run(study.run_dir(study.points[0]), {});
  submit(1, "11");
  submit(2, "12");
  const QueuedJobs queue = {{"12", {.state = "PENDING", .reason = "Priority", .start = ""}}};
  std::vector<PointState> states;
  for (const auto& point : study.points) states.push_back(state_of(study, point, queue));
  EXPECT_EQ(states,
            (std::vector{PointState::kFinished, PointState::kFailed, PointState::kWaiting, PointState::kAbsent}));
  EXPECT_EQ(progress_of(states), "1 of 4 finished, 1 waiting, 1 failed, 1 not started");
  const auto rows = study_rows(study);
  ASSERT_EQ(rows.size(), 1U);
  write_results(study, rows);
  EXPECT_HAS(text_of_file(study.folder / "scaling.md"), "| nodes | ranks |");
  EXPECT_HAS(text_of_file(study.folder / "scaling.json"), "\"node_hours\"");
}

}  // namespace
}  // namespace lockstep
