// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/placement/placement.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::message_of;

Environment with(const Environment& base, const Environment& more) {
  auto all = base.all();
  for (const auto& [name, value] : more.all()) all[name] = value;
  return Environment(std::move(all));
}

Environment without(const Environment& base, const std::string& name) {
  auto all = base.all();
  all.erase(name);
  return Environment(std::move(all));
}

std::string complaint(const Environment& env, const PlacementFlags& flags = {}) {
  return message_of(ErrorKind::kEnvironment, [&] { placement_from(env, flags); });
}

const Environment kStep{{"SLURM_JOB_ID", "4711"},
                        {"SLURM_STEP_ID", "2"},
                        {"SLURM_PROCID", "3"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_NTASKS", "5"},
                        {"SLURM_STEP_NUM_TASKS", "5"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                        {"SLURM_STEP_NODELIST", "n[07-08],m1"}};
const Environment kTorchrun{{"RANK", "3"},          {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},    {"LOCAL_WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "n07"}, {"MASTER_PORT", "29500"}};
const Environment kAgent{{"TORCHELASTIC_RUN_ID", "none"}, {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "2"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

TEST(Placement, WithoutALauncherItIsOneProcess) {
  const Placement at = placement_from(Environment{{"HOME", "/home/a"}, {"MASTER_ADDR", "x"}});
  EXPECT_EQ(at.source, "single");
  EXPECT_EQ(at.rank, 0);
  EXPECT_EQ(at.world, 1);
  EXPECT_EQ(at.nodes, 1);
  EXPECT_EQ(at.device, std::nullopt);
  EXPECT_FALSE(at.master);
  EXPECT_TRUE(at.job.empty());
  EXPECT_TRUE(at.is_main());
}

TEST(PlacementFromSlurm, TakesNodesAndHostsFromTheStepsOwnLists) {
  const Placement at = placement_from(kStep);
  EXPECT_EQ(at.source, "slurm");
  EXPECT_EQ(at.rank, 3);
  EXPECT_EQ(at.world, 5);
  EXPECT_EQ(at.local_rank, 1);
  EXPECT_EQ(at.local_world, 2);
  EXPECT_EQ(at.node_rank, 1);
  EXPECT_EQ(at.nodes, 3);
  EXPECT_EQ(at.hosts, (std::vector<std::string>{"n07", "n08", "m1"}));
  EXPECT_EQ(at.job, "4711.2");
}

TEST(PlacementFromSlurm, AWrongTasksPerNodeOfTheJobDoesNotMatter) {
  const Placement at = placement_from(with(kStep, {{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_TASKS_PER_NODE", "4(x3)"}}));
  EXPECT_EQ(at.local_world, 2);
}

TEST(PlacementFromSlurm, ArraysAndRestartsHaveKeysOfTheirOwn) {
  const Environment array = with(kStep, {{"SLURM_ARRAY_JOB_ID", "4700"}, {"SLURM_ARRAY_TASK_ID", "11"}});
  EXPECT_EQ(placement_from(array).job, "4700_11.2");
  const Placement again = placement_from(with(array, {{"SLURM_RESTART_COUNT", "3"}}));
  EXPECT_EQ(again.job, "4700_11.2-r3");
  EXPECT_EQ(again.run, "4700_11.2");
  EXPECT_EQ(again.restart, 3);
}

TEST(PlacementFromSlurm, BatchScriptsAndShellsAreNoSteps) {
  EXPECT_EQ(placement_from(without(kStep, "SLURM_STEP_ID")).source, "single");
  // Slurm's own steps: batch, extern, interactive.
  for (const auto* id : {"4294967291", "4294967292", "4294967290"}) {
    EXPECT_EQ(placement_from(with(kStep, {{"SLURM_STEP_ID", id}})).source, "single") << id;
  }
}

TEST(PlacementFromSlurm, AStepThatContradictsItselfIsRefused) {
  EXPECT_EQ(complaint(with(kStep, {{"SLURM_PROCID", "5"}})),
            "SLURM_PROCID='5' is out of range, want 0 or more and less than SLURM_STEP_NUM_TASKS='5'\n"
            "  hint: start the program with the launcher itself, or unset what is left over of another");
  EXPECT_NE(complaint(with(kStep, {{"SLURM_STEP_TASKS_PER_NODE", "2,1"}}))
                .find("SLURM_STEP_TASKS_PER_NODE='2,1' is not 5 tasks in all, as SLURM_STEP_NUM_TASKS says"),
            std::string::npos);
  EXPECT_NE(
      complaint(with(kStep, {{"SLURM_STEP_NODELIST", "n1"}})).find("SLURM_STEP_NODELIST='n1' names 1 hosts, want 3"),
      std::string::npos);
  EXPECT_NE(complaint(with(kStep, {{"SLURM_STEP_NODELIST", "n[1"}})).find("SLURM_STEP_NODELIST: host list 'n[1'"),
            std::string::npos);
  EXPECT_NE(complaint(without(kStep, "SLURM_LOCALID")).find("SLURM_PROCID is set but SLURM_LOCALID is not"),
            std::string::npos);
  EXPECT_NE(complaint(with(kStep, {{"SLURM_NODEID", "two"}})).find("SLURM_NODEID='two' is not a whole number"),
            std::string::npos);
}

TEST(PlacementFromTorchrun, TheAgentsWordStandsWithinAStep) {
  const Placement at = placement_from(with(with(kStep, kTorchrun), kAgent));
  EXPECT_EQ(at.source, "torchrun");
  EXPECT_EQ(at.rank, 3);
  EXPECT_EQ(at.world, 4);
  EXPECT_EQ(at.node_rank, 1);
  EXPECT_EQ(at.nodes, 2);
  ASSERT_TRUE(at.master);
  EXPECT_EQ(at.master->address, "n07");
  EXPECT_EQ(at.master->port, 29500);
}

TEST(PlacementFromTorchrun, AnExportedSetThatContradictsTheStepIsAnErrorThatNamesBoth) {
  EXPECT_EQ(complaint(with(kStep, kTorchrun)),
            "torchrun says rank 3 of 4, local rank 1 of 2; slurm says rank 3 of 5, local rank 1 of 2\n"
            "  hint: unset the variables of the one that did not start this process: RANK, WORLD_SIZE, LOCAL_RANK and "
            "LOCAL_WORLD_SIZE if a script exports them");
}

TEST(PlacementFromTorchrun, AnExportedSetThatAgreesKeepsWhatTheStepKnows) {
  const Placement at = placement_from(with(with(kStep, kTorchrun), {{"WORLD_SIZE", "5"}}));
  EXPECT_EQ(at.source, "slurm") << "torchrun's variables alone are no torchrun";
  EXPECT_EQ(at.job, "4711.2");
  EXPECT_EQ(at.hosts.size(), 3U);
  EXPECT_EQ(at.master->port, 29500);
}

TEST(PlacementFromTorchrun, APartOfTheSetIsNoSourceBesideAStepAndAnErrorAlone) {
  EXPECT_EQ(placement_from(with(kStep, {{"WORLD_SIZE", "8"}})).source, "slurm");
  EXPECT_EQ(complaint(Environment{{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "RANK='1' is set, but not LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT\n"
            "  hint: start the program with srun, torchrun or mpirun; set all six to place it by hand; or unset RANK");
  EXPECT_EQ(placement_from(Environment{{"RANK", "0"}, {"WORLD_SIZE", "1"}}).source, "single");
}

TEST(PlacementFromTorchrun, AWrongPortOrNodeIsRefused) {
  EXPECT_NE(
      complaint(with(kTorchrun, {{"MASTER_PORT", "70000"}})).find("MASTER_PORT='70000' is not a port, want 1 to 65535"),
      std::string::npos);
  EXPECT_NE(complaint(with(with(kTorchrun, kAgent), {{"GROUP_RANK", "2"}})).find("GROUP_RANK='2' is out of range"),
            std::string::npos);
  EXPECT_NE(complaint(with(with(kTorchrun, kAgent), {{"GROUP_WORLD_SIZE", "5"}}))
                .find("GROUP_WORLD_SIZE='5' is out of range, want 1 to WORLD_SIZE='4'"),
            std::string::npos);
  EXPECT_NE(complaint(with(without(kTorchrun, "MASTER_ADDR"), kAgent)).find("MASTER_ADDR is not"), std::string::npos);
}

TEST(PlacementFromOurLauncher, IsTheInnermostAndKeepsTheStepsJob) {
  const Environment own = with(with(kStep, kOpenMpi), with(kTorchrun, {{"LOCKSTEP_LAUNCHER", "1"}}));
  const Placement at = placement_from(own);
  EXPECT_EQ(at.source, "lockstep");
  EXPECT_EQ(at.world, 4);
  EXPECT_EQ(at.job, "4711.2");
  EXPECT_EQ(placement_from(with(own, kAgent)).source, "torchrun");
}

TEST(PlacementFromMpi, AnInnerLauncherComesBeforeTheStepThatItsDaemonRunsIn) {
  const Placement at = placement_from(with(kStep, kOpenMpi));
  EXPECT_EQ(at.source, "openmpi");
  EXPECT_EQ(at.rank, 2);
  EXPECT_EQ(at.world, 4);
  EXPECT_EQ(at.node_rank, 1);
  EXPECT_EQ(at.nodes, 2);
}

TEST(PlacementFromMpi, WhereItAgreesWithTheStepTheStepIsTheSource) {
  const Environment pmi{{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}, {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "2"}};
  EXPECT_EQ(placement_from(with(kStep, pmi)).source, "slurm");
  EXPECT_EQ(placement_from(pmi).source, "pmi");
}

TEST(PlacementFromMpi, SlurmsOwnPmiIsNoSourceBesideTheStep) {
  EXPECT_EQ(placement_from(with(kStep, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})).rank, 3);
}

TEST(PlacementFromMpi, AnIncompleteSetIsAnErrorThatNamesWhatIsMissing) {
  EXPECT_NE(complaint(without(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE"))
                .find("OMPI_COMM_WORLD_RANK is set but OMPI_COMM_WORLD_LOCAL_SIZE is not"),
            std::string::npos);
  EXPECT_NE(
      complaint(Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).find("none of MPI_LOCALRANKID, PMI_LOCAL_RANK"),
      std::string::npos);
  EXPECT_EQ(placement_from(Environment{{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).world, 1);
}

TEST(PlacementFromFlux, AnUnknownTaskMapIsRefused) {
  const Environment flux{
      {"FLUX_TASK_RANK", "3"}, {"FLUX_JOB_SIZE", "4"}, {"FLUX_TASK_LOCAL_ID", "3"}, {"FLUX_JOB_NNODES", "2"}};
  EXPECT_NE(complaint(flux).find("FLUX_TASK_LOCAL_ID='3' fits neither a block nor a cyclic task map of 4 tasks over 2"),
            std::string::npos);
}

TEST(PlacementSources, TwoSchedulersThatDisagreeAreAnErrorThatNamesBoth) {
  const Environment flux{
      {"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_NNODES", "1"}};
  const std::string text = complaint(with(kStep, flux));
  EXPECT_NE(text.find("slurm says rank 3 of 5"), std::string::npos);
  EXPECT_NE(text.find("flux says rank 1 of 2"), std::string::npos);
  EXPECT_EQ(placement_from(with(with(kStep, flux), {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})).source, "flux");
}

TEST(PlacementDevice, OneVisibleIsIndexZeroAndSeveralGoByLocalRank) {
  EXPECT_EQ(placement_from(with(kStep, {{"CUDA_VISIBLE_DEVICES", "5"}})).device, 0);
  EXPECT_EQ(placement_from(with(kStep, {{"ROCR_VISIBLE_DEVICES", "GPU-a1,GPU-b2"}})).device, 1);
  EXPECT_EQ(placement_from(with(kStep, {{"SLURM_STEP_GPUS", "0,1,2,3"}})).device, 1);
  EXPECT_EQ(placement_from(with(kStep, {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"HIP_VISIBLE_DEVICES", "1"}})).device, 0);
}

TEST(PlacementDevice, TheFirstOfATasksOwnDevicesIsItsDevice) {
  const Environment third{{"SLURM_LOCALID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "1,3,1"}};
  const auto own = with(third, {{"CUDA_VISIBLE_DEVICES", "4,5"}, {"SLURMD_TRES_BIND", "gpu:per_task:2"}});
  EXPECT_EQ(placement_from(with(kStep, own)).device, 0);
  // All devices of the node, although each task has asked for two.
  const auto bound_by_nobody = with(third, {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"SLURMD_TRES_BIND", "gpu:none"}});
  EXPECT_EQ(placement_from(with(kStep, bound_by_nobody)).device, 2);
}

TEST(PlacementDevice, HiddenDevicesAreNone) {
  for (const auto* hidden : {"", "-1", "NoDevFiles"}) {
    EXPECT_EQ(placement_from(with(kStep, {{"CUDA_VISIBLE_DEVICES", hidden}, {"SLURM_STEP_GPUS", "0,1"}})).device,
              std::nullopt)
        << hidden;
  }
}

TEST(PlacementDevice, FewerDevicesThanRanksOnANodeIsAnErrorOnEachOfThem) {
  for (const auto* local_rank : {"0", "2"}) {
    const Environment two{
        {"SLURM_LOCALID", local_rank}, {"SLURM_STEP_TASKS_PER_NODE", "1,3,1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
    EXPECT_EQ(complaint(with(kStep, two)),
              "CUDA_VISIBLE_DEVICES='0,1' shows 2 devices, want 3 for the 3 ranks of this node\n"
              "  hint: ask for as many devices as tasks on each node, or hide all with CUDA_VISIBLE_DEVICES= to run on "
              "CPU");
  }
}

TEST(PlacementFlags, OverrideWhatTheEnvironmentSays) {
  const Placement at = placement_from(kStep, {.local_rank = 0});
  EXPECT_EQ(at.source, "flags");
  EXPECT_EQ(at.rank, 3);
  EXPECT_EQ(at.local_rank, 0);
}

TEST(PlacementFlags, RankAndWorldByHandNeedNoUsableEnvironment) {
  const Placement at = placement_from(with(kStep, {{"SLURM_PROCID", "x"}}), {.rank = 1, .world = 2});
  EXPECT_EQ(at.rank, 1);
  EXPECT_EQ(at.world, 2);
  EXPECT_EQ(at.node_rank, 1);
}

TEST(PlacementFlags, OutOfRangeIsAUsageError) {
  const auto complaint_about = [](const PlacementFlags& flags) {
    return message_of(ErrorKind::kUsage, [&] { placement_from({}, flags); });
  };
  EXPECT_EQ(complaint_about({.rank = 2, .world = 2}),
            "rank is 2, want 0 to 1\n  hint: ranks count from 0 to world - 1, local ranks from 0 to local world - 1");
  EXPECT_NE(complaint_about({.rank = 0, .world = 0}).find("world is 0, want 1 to"), std::string::npos);
  EXPECT_NE(complaint_about({.local_world = 2}).find("local world is 2, want 1 to 1"), std::string::npos);
}

std::string described(const Environment::Map& all) {
  std::string text;
  for (const auto& [name, value] : all) text += name + "=" + value + " ";
  return text;
}

TEST(PlacementFuzz, AnyValuesGiveAPlacementInRangeOrAnError) {
  std::mt19937 random(3);
  const std::vector<std::string> names = {"RANK",
                                          "WORLD_SIZE",
                                          "LOCAL_RANK",
                                          "LOCAL_WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "GROUP_RANK",
                                          "GROUP_WORLD_SIZE",
                                          "SLURM_JOB_ID",
                                          "SLURM_STEP_ID",
                                          "SLURM_PROCID",
                                          "SLURM_LOCALID",
                                          "SLURM_NODEID",
                                          "SLURM_NTASKS",
                                          "SLURM_STEP_NUM_TASKS",
                                          "SLURM_STEP_TASKS_PER_NODE",
                                          "SLURM_STEP_NODELIST",
                                          "SLURM_NNODES",
                                          "OMPI_COMM_WORLD_RANK",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "OMPI_COMM_WORLD_LOCAL_RANK",
                                          "OMPI_COMM_WORLD_LOCAL_SIZE",
                                          "OMPI_MCA_orte_num_nodes",
                                          "PMI_RANK",
                                          "PMI_SIZE",
                                          "PMI_LOCAL_RANK",
                                          "PMI_LOCAL_SIZE",
                                          "PALS_NODEID",
                                          "FLUX_TASK_RANK",
                                          "FLUX_JOB_SIZE",
                                          "FLUX_TASK_LOCAL_ID",
                                          "FLUX_JOB_NNODES",
                                          "CUDA_VISIBLE_DEVICES"};
  const std::vector<std::string> values = {"0",          "1",  "2", "3",   "4",     "1",     "2",
                                           "2147483647", "-1", "x", "2,1", "1(x2)", "n[1-2]"};
  int placed = 0;
  for (int i = 0; i < 100'000; ++i) {
    Environment::Map all;
    const auto first = random() % names.size();
    for (auto n = 3 + random() % 9; n > 0; --n) {
      all[names[(first + random() % 11) % names.size()]] = values[random() % (i % 2 == 0 ? 5 : values.size())];
    }
    try {
      const Placement at = placement_from(Environment(all));
      ASSERT_TRUE(at.rank >= 0 && at.rank < at.world);
      ASSERT_TRUE(at.local_rank >= 0 && at.local_rank < at.local_world && at.local_world <= at.world);
      ASSERT_TRUE(at.node_rank >= 0 && at.node_rank < at.nodes && at.nodes <= at.world) << described(all);
      ++placed;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kEnvironment) << error.what();
    }
  }
  EXPECT_GT(placed, 10'000);
}

}  // namespace
}  // namespace lockstep
