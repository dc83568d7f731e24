// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/packed_sweep.h"

#include <gtest/gtest.h>

#include "lockstep/cluster/profile/library.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

PackedJob packed(const std::string& cluster, int chain = 0) {
  const auto profile = ProfileLibrary(Environment{}).named(cluster);
  JobRequest asked;
  asked.queue.account = "abc123";
  asked.queue.chain = chain;
  asked.program = {
      .name = "mnist", .command = {"/bin/lockstep", "train", "/r.toml", "--run-dir", "/sweep"}, .is_recipe = true};
  asked.paths = {.run_dir = "/sweep/job-1",
                 .work_dir = "/work",
                 .lockstep = "/bin/lockstep",
                 .profile = cluster,
                 .profile_path = {}};
  PackedJob job{.node = job_plan(asked, profile), .trial = {}, .sweep = "/sweep"};
  asked.shape.devices = 1;
  asked.shape.cores_per_task = static_cast<int>(profile.sbatch.cores_per_device);
  asked.paths.run_dir = "/sweep";
  job.trial = job_plan(asked, profile);
  job.trials = {{"01-lr-0.1", {"--set", "optimizer.lr=0.1"}}, {"02-lr-0.01", {"--set", "optimizer.lr=0.01"}}};
  return job;
}

TEST(PackedSweep, AsksForAWholeNodeAndGivesEachTrialItsShare) {
  const auto script = packed_script(packed("lumi-g"));
  EXPECT_HAS(script, "#SBATCH --gpus-per-node=8\n");
  EXPECT_HAS(script, "#SBATCH --mem=480G\n");
  EXPECT_HAS(script,
             "srun --exact --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=\"$1\" --cpus-per-task=7 "
             "--mem=60G --gpus-per-node=1 ");
  EXPECT_EQ(script.find("mask_cpu"), std::string::npos) << "the masks are those of all of a node's tasks";
  EXPECT_HAS(script, "start 01-lr-0.1 --set optimizer.lr=0.1\nstart 02-lr-0.01 --set optimizer.lr=0.01\n");
}

TEST(PackedSweep, LeavesTheDevicesInTheOrderInWhichSlurmGivesThem) {
  EXPECT_EQ(packed_script(packed("perlmutter")).find("export CUDA_VISIBLE_DEVICES"), std::string::npos);
}

TEST(PackedSweep, GoesOnWhereTheTimeWasUpForATrial) {
  const auto script = packed_script(packed("lumi-g", 3));
  EXPECT_HAS(script, " && [ \"$link\" -lt 3 ]; then\n");
  EXPECT_HAS(script, "[ -z \"$again\" ] || next_job\n");
}

TEST(PackedSweep, PutsATrialOnEachDevice) {
  const ProfileLibrary library{Environment{}};
  EXPECT_EQ(trials_on_a_node({}, library.named("juwels-booster")), 4);
  EXPECT_EQ(trials_on_a_node({.devices = 2}, library.named("lumi-g")), 2);
  EXPECT_EQ(trials_on_a_node({.devices = 0, .tasks = 16}, library.named("lumi-g")), 16);
  EXPECT_HAS(message_of(ErrorKind::kUsage, [&] { trials_on_a_node({}, library.named("generic")); }),
             "generic knows no devices of a node");
}

}  // namespace
}  // namespace lockstep
