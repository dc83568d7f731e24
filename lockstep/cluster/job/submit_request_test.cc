// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/submit_request.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

class PlanSubmission : public ::testing::Test {
 protected:
  Submission plan(const SubmitRequest& request) {
    return plan_submission(request, {.path = "/opt/bin/lockstep", .version = "0.1.0"}, env_, Log());
  }
  std::string refusal(const SubmitRequest& request, ErrorKind kind = ErrorKind::kUsage) {
    return message_of(kind, [&] { plan(request); });
  }
  /// A recipe on one node of LUMI.
  SubmitRequest sweep(const std::string& more = {}) {
    const auto recipe = folder_.path() / "mine.toml";
    write_whole(recipe, "[model]\nname = \"mlp\"\n[data]\nkind = \"idx\"\npath = \"/data\"\n" + more, false);
    SubmitRequest request{.cluster = "lumi-g"};
    request.flags.recipe = recipe.string();
    request.is.dry_run = true;
    return request;
  }

  testing::TemporaryFolder folder_;
  Environment env_{{"HOME", folder_.path().string()},
                   {"LOCKSTEP_RUNS", (folder_.path() / "runs").string()},
                   {"SBATCH_ACCOUNT", "project_1"}};
};

TEST_F(PlanSubmission, OfAProgramNamesItsRunFolderAfterIt) {
  SubmitRequest request{.cluster = "lumi-g"};
  request.flags.program = {"python", "train.py"};
  request.is.dry_run = true;
  const auto submission = plan(request);
  ASSERT_EQ(submission.jobs.size(), 1U);
  const auto& paths = submission.first().paths;
  EXPECT_EQ(paths.run_dir.parent_path(), folder_.path() / "runs");
  EXPECT_HAS(paths.run_dir.filename().string(), "train-");
  EXPECT_EQ(paths.lockstep, "/opt/bin/lockstep");
  EXPECT_FALSE(submission.is_here);
  EXPECT_FALSE(std::filesystem::exists(paths.run_dir)) << "planning creates nothing";
}

TEST_F(PlanSubmission, OfARecipeRunsTrainWithTheSameSettings) {
  auto request = sweep();
  request.flags.sets = {"optimizer.lr=0.5"};
  request.run_dir = "/runs/mine";
  const auto& command = plan(request).first().program.command;
  const std::vector<std::string> wanted = {"/opt/bin/lockstep", "train", request.flags.recipe, "--run-dir",
                                           "/runs/mine",        "--set", "optimizer.lr=0.5"};
  EXPECT_EQ(command, wanted);
}

TEST_F(PlanSubmission, OfASweepPutsTheTrialsSideBySide) {
  auto request = sweep();
  request.sweeps = {"optimizer.lr=0.1,0.2"};
  const auto submission = plan(request);
  ASSERT_EQ(submission.jobs.size(), 2U);
  const auto sweep_folder = submission.jobs[0].paths.run_dir.parent_path();
  EXPECT_EQ(sweep_folder.parent_path(), folder_.path() / "runs");
  EXPECT_EQ(submission.jobs[0].paths.run_dir, sweep_folder / "01-lr-0.1");
  EXPECT_EQ(submission.jobs[1].paths.run_dir, sweep_folder / "02-lr-0.2");
}

TEST_F(PlanSubmission, OfASweepHoldsTheTrialsToTheLimitsNotTheRecipeAlone) {
  auto request = sweep("[cluster]\nnodes = 100000\n");
  EXPECT_HAS(refusal(request, ErrorKind::kEnvironment), "100000");
  request.sweeps = {"cluster.nodes=1,2"};
  const auto submission = plan(request);
  ASSERT_EQ(submission.jobs.size(), 2U);
  EXPECT_EQ(submission.jobs[1].size.nodes, 2);
}

TEST_F(PlanSubmission, OfAPackedSweepFillsNodes) {
  auto request = sweep();
  request.run_dir = "/runs/sweep";
  request.sweeps = {"optimizer.lr=1,2,3,4,5,6,7,8,9"};
  request.is.pack = true;
  const auto submission = plan(request);
  ASSERT_EQ(submission.packed.size(), 2U);
  EXPECT_EQ(submission.packed[0].trials.size(), 8U);
  EXPECT_EQ(submission.packed[1].trials.size(), 1U);
  EXPECT_EQ(submission.packed[1].sweep, "/runs/sweep");
  EXPECT_EQ(submission.packed[1].node.paths.run_dir, "/runs/sweep/job-2");
}

TEST_F(PlanSubmission, OfAProgramsSweepGivesEachTrialItsCommandNameAndFolder) {
  SubmitRequest request{.cluster = "lumi-g", .run_dir = "/runs/sweep", .sweeps = {"lr=.1,.01"}};
  request.flags.program = {"python", "train.py", "--lr", "{lr}", "{other}"};
  request.is.dry_run = true;
  const auto jobs = plan(request).jobs;
  ASSERT_EQ(jobs.size(), 2U);
  const std::vector<std::string> wanted = {"python", "train.py", "--lr", ".01", "{other}"};
  EXPECT_EQ(jobs[1].program.command, wanted);
  EXPECT_EQ(jobs[1].program.name, "train-02-lr-.01");
  EXPECT_EQ(jobs[1].paths.run_dir, "/runs/sweep/02-lr-.01");
  request.is.pack = true;
  const auto packed = plan(request).packed;
  ASSERT_EQ(packed.size(), 1U);
  const auto script = packed_script(packed[0]);
  EXPECT_HAS(script, "start 01-lr-.1 train.py --lr .1 '{other}'\nstart 02-lr-.01 train.py --lr .01 '{other}'\n");
  EXPECT_EQ(script.find("\"$program\" train.py"), std::string::npos) << "a trial's arguments stand with its name";
}

TEST_F(PlanSubmission, RefusesFlagsThatDoNotGoTogether) {
  SubmitRequest request{.cluster = "lumi-g"};
  EXPECT_HAS(refusal(request), "neither a recipe nor a program was given");
  request.flags.program = {"./a.out"};
  request.sweeps = {"lr=1,2"};
  EXPECT_HAS(refusal(request), "--sweep varies 'lr', but the command has no {lr}");
  request.is.pack = true;
  request.chain = 2;
  EXPECT_HAS(refusal(request), "packed trials of a program are not warned");
  request.chain = 0;
  request.flags.program = {"./{lr}"};
  EXPECT_HAS(refusal(request), "--sweep varies the program itself, './{lr}'");
  request.sweeps.clear();
  request.is.pack = true;
  EXPECT_HAS(refusal(request), "there is no --sweep");
  request.flags.recipe = "digits";
  EXPECT_HAS(refusal(request), "both a recipe and a program were given, want one");
}

TEST_F(PlanSubmission, RefusesABoundThatBoundsNothing) {
  SubmitRequest request{.cluster = "lumi-g"};
  request.flags.program = {"./a.out", "{lr}"};
  request.is.dry_run = true;
  request.at_most = 1;
  EXPECT_HAS(refusal(request), "--at-most bounds the jobs of a sweep, but there is no --sweep");
  request.sweeps = {"lr=1,2"};
  EXPECT_NO_THROW(plan(request));
  for (const auto* flag : {"--dependency=singleton", "--dep=singleton", "-d singleton"}) {
    request.flags.sbatch = {flag};
    EXPECT_HAS(refusal(request), std::string("--at-most and --sbatch=") + flag + " both say what a job waits for");
  }
  request.at_most = 0;
  EXPECT_HAS(refusal(request), "--at-most is 0, want 1 or more");
}

TEST_F(PlanSubmission, RefusesAContainerImageThatIsMissing) {
  auto request = sweep("[cluster]\ncontainer = \"/no/such.sif\"\n");
  request.is.dry_run = false;
  EXPECT_HAS(refusal(request, ErrorKind::kEnvironment), "there is no container image '/no/such.sif'");
  request.is.dry_run = true;
  EXPECT_NO_THROW(plan(request)) << "another system's image may be elsewhere";
}

}  // namespace
}  // namespace lockstep
