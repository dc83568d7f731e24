// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/affinity.h"

#include <gtest/gtest.h>

#include "tests/support/fake_machine.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using testing::add_mi250x;
using testing::FakeMachine;
using testing::message_of;
using testing::TemporaryFolder;

const std::vector<std::string> kLumiMasks = {"0x00fe000000000000", "0xfe00000000000000", "0x0000000000fe0000",
                                             "0x00000000fe000000", "0x00000000000000fe", "0x000000000000fe00",
                                             "0x000000fe00000000", "0x0000fe0000000000"};

Placement local(int rank, int world, std::optional<int> device) {
  Placement at;
  at.rank = at.local_rank = rank;
  at.world = at.local_world = world;
  at.device = device;
  return at;
}

const Environment kAllOfEight{{"ROCR_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"}};

TEST(Affinity, TheTopologyOfALumiNodeGivesTheMasksThatItsGuidePrints) {
  FakeMachine node(64, 4);
  add_mi250x(node);
  CpuSet allowed;
  for (int core = 0; core < 64; ++core) {
    if (core % 8 != 0) allowed.insert(core);  // The first core of each eight is the system's.
  }
  for (int rank = 0; rank < 8; ++rank) {
    const auto found = binding_of(local(rank, 8, rank), kAllOfEight, {}, node.topology(), allowed);
    EXPECT_EQ(found.cpus, cpus_of_mask(kLumiMasks[static_cast<std::size_t>(rank)])) << "rank " << rank;
    EXPECT_TRUE(found.is_change);
    EXPECT_TRUE(found.warning.empty());
  }
}

TEST(Affinity, SharesWholeCoresWithBothTheirThreads) {
  FakeMachine node(64, 4);
  add_mi250x(node);
  const auto found = binding_of(local(1, 8, 1), kAllOfEight, {}, node.topology(), cpus_of_list("0-127"));
  EXPECT_EQ(list_of(found.cpus), "56-63,120-127");
  EXPECT_EQ(report_of(found, node.topology()),
            "CPUs 56-63,120-127 (8 cores, NUMA 3), nearest to device 1 (0000:c6:00.0)");
}

TEST(Affinity, NearestCoresOfNvidiaNodesAreThoseThatTheSitesPrint) {
  const struct {
    int cores;
    int domains;
    std::vector<int> domain_of_gpu;
    std::vector<std::string> masks;
  } sites[] = {
      {64, 4, {3, 2, 1, 0}, {"0xffff000000000000", "0x0000ffff00000000", "0x00000000ffff0000", "0x000000000000ffff"}},
      {48, 8, {3, 1, 7, 5}, {"0x000000fc0000", "0x000000000fc0", "0xfc0000000000", "0x000fc0000000"}},
  };
  for (const auto& site : sites) {
    FakeMachine node(site.cores, site.domains);
    for (int gpu = 0; gpu < 4; ++gpu) {
      node.add_nvidia(0x03U + 0x3eU * static_cast<unsigned>(gpu), site.domain_of_gpu[static_cast<std::size_t>(gpu)]);
    }
    const CpuSet allowed = cpus_of_list("0-" + std::to_string(site.cores - 1));
    for (int rank = 0; rank < 4; ++rank) {
      const Environment env{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};
      const auto found = binding_of(local(rank, 4, rank), env, {}, node.topology(), allowed);
      EXPECT_EQ(found.cpus, cpus_of_mask(site.masks[static_cast<std::size_t>(rank)])) << site.cores << ", " << rank;
    }
  }
}

TEST(Affinity, ATaskThatSeesOneDeviceIsBoundToThatOneOfTheNode) {
  FakeMachine node(64, 4);
  for (int gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + static_cast<unsigned>(gpu), 3 - gpu);
  // In a cgroup the only device is always index 0, and Slurm's own list has its number.
  const Environment in_cgroup{{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "2"}};
  EXPECT_EQ(list_of(binding_of(local(1, 4, 0), in_cgroup, {}, node.topology(), cpus_of_list("0-63")).cpus), "16-31");
  const Environment unknown{{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0,1,2,3"}};
  const auto kept = binding_of(local(1, 4, 0), unknown, {}, node.topology(), cpus_of_list("0-63"));
  EXPECT_FALSE(kept.is_change);
  EXPECT_EQ(kept.why, "as the launcher set them");
}

TEST(Affinity, DevicesAreFoundByUuidAndInTheOrderThatTheUserGives) {
  FakeMachine node(64, 4);
  for (int gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + static_cast<unsigned>(gpu), 3 - gpu);
  const auto gpus = node.topology().gpus();
  ASSERT_EQ(gpus.size(), 4U);
  EXPECT_EQ(gpu_of_device(gpus, {{"CUDA_VISIBLE_DEVICES", "3,2,1,0"}}, 0)->pci, "0000:13:00.0");
  EXPECT_EQ(gpu_of_device(gpus, {{"CUDA_VISIBLE_DEVICES", "3,2,1,0"}, {"SLURM_STEP_GPUS", "0,1,2,3"}}, 0)->pci,
            "0000:13:00.0");
  EXPECT_EQ(gpu_of_device(gpus, {{"CUDA_VISIBLE_DEVICES", "1,0"}, {"SLURM_STEP_GPUS", "2,3"}}, 0)->pci, "0000:13:00.0")
      << "in a cgroup CUDA counts from 0";
  EXPECT_EQ(gpu_of_device(gpus, {{"CUDA_VISIBLE_DEVICES", "GPU-00000001"}}, 0)->pci, "0000:11:00.0");
  EXPECT_EQ(gpu_of_device(gpus, {{"CUDA_VISIBLE_DEVICES", "9"}}, 0), std::nullopt);
  EXPECT_EQ(gpu_of_device(gpus, {}, 2)->pci, "0000:12:00.0");
}

TEST(Affinity, TheDevicesOfAStepAreKnownOnANodeThatOtherJobsShare) {
  FakeMachine node(64, 4);
  for (unsigned gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + gpu, 0);
  const auto gpus = node.topology().gpus();
  const auto allocated = [&](const Environment& env) {
    std::string text;
    const auto found = allocated_gpus(gpus, env);
    for (const auto& gpu : found.value_or(std::vector<Gpu>())) text += gpu.pci.substr(5, 3);
    return found ? text : "unknown";
  };
  EXPECT_EQ(allocated({}), "10:11:12:13:");
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "1,3"}}), "11:13:");
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "GPU-00000002"}}), "12:");
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "1"}, {"SLURM_STEP_GPUS", "1,2"}}), "11:12:") << "a task of two";
  EXPECT_EQ(allocated({{"SLURM_STEP_GPUS", "1,2"}}), "11:12:") << "as with --gpu-bind=none";
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "MIG-1b"}, {"SLURM_STEP_GPUS", "3"}}), "unknown");
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "4"}}), "unknown");
  EXPECT_EQ(allocated({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}), "") << "a job without devices";
}

TEST(Affinity, HipCountsWithinWhatRocmLeavesAndSlurmsCudaListMeansNothingThere) {
  FakeMachine node(64, 4);
  add_mi250x(node);
  const auto gpus = node.topology().gpus();
  EXPECT_EQ(gpu_of_device(gpus, {{"ROCR_VISIBLE_DEVICES", "4,5"}, {"HIP_VISIBLE_DEVICES", "1"}}, 0)->pci,
            "0000:d6:00.0");
  EXPECT_EQ(gpu_of_device(gpus, {{"ROCR_VISIBLE_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", "4"}}, 0)->pci,
            "0000:d1:00.0");
}

TEST(Affinity, ADeviceThatTheCgroupHidesIsNotCounted) {
  FakeMachine node(64, 4);
  add_mi250x(node);
  node.write("sys/class/kfd/kfd/topology/nodes/4/properties", "");  // The kernel refuses to show it.
  EXPECT_EQ(gpu_of_device(node.topology().gpus(), {}, 0)->pci, "0000:c6:00.0");
}

TEST(Affinity, WhatSlurmGaveOneTaskIsKept) {
  FakeMachine node(64, 4);
  for (int gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + static_cast<unsigned>(gpu), 3 - gpu);
  const Environment env{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"SLURM_CPUS_PER_TASK", "24"}};
  const auto kept = binding_of(local(0, 2, 0), env, {}, node.topology(), cpus_of_list("24-47"));
  EXPECT_FALSE(kept.is_change);
  EXPECT_EQ(kept.why, "as the launcher set them, 16 of them nearest to devices 0 (0000:10:00.0) and 1 (0000:11:00.0)");
}

TEST(Affinity, ATaskOfSeveralDevicesGetsTheCoresOfThemAll) {
  const TaskSettings site{.cluster = "lumi-g", .cpu_masks = kLumiMasks};
  const FakeMachine node(64, 4);
  Environment::Map variables = kAllOfEight.all();
  variables["SLURM_CPUS_PER_TASK"] = "56";
  const auto whole = binding_of(local(0, 1, 0), Environment(variables), site, node.topology(), cpus_of_list("0-63"));
  EXPECT_EQ(list_of(whole.cpus), "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63");
  EXPECT_EQ(whole.why, "the masks that lumi-g has for devices 0, 1, 2, 3, 4, 5, 6 and 7");
  variables["SLURM_CPUS_PER_TASK"] = "28";
  const auto half = binding_of(local(1, 2, 1), Environment(variables), site, node.topology(), cpus_of_list("0-63"));
  EXPECT_EQ(list_of(half.cpus), "1-7,9-15,33-39,41-47") << "devices 4 to 7";
}

TEST(Affinity, NoTaskGetsFewerCpusThanItAskedFor) {
  const TaskSettings site{.cluster = "juwels-booster", .cpu_masks = {"0x000000fc0000", "0x000000000fc0"}};
  const FakeMachine node(48, 8);
  const Environment one{{"CUDA_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "0"}, {"SLURM_CPUS_PER_TASK", "24"}};
  const auto kept = binding_of(local(0, 1, 0), one, site, node.topology(), cpus_of_list("0-23"));
  EXPECT_EQ(list_of(kept.cpus), "0-23");
  EXPECT_EQ(kept.why, "as the launcher set them, 6 of them nearest to device 0");
  const auto far = binding_of(local(0, 1, 0), one, site, node.topology(), cpus_of_list("24-47"));
  EXPECT_EQ(list_of(far.cpus), "18-47");
  EXPECT_EQ(far.why, "the mask that juwels-booster has for device 0, besides what the launcher set");
}

TEST(Affinity, BothThreadsOfACoreStayWhereSlurmCountsThem) {
  const TaskSettings site{.cluster = "perlmutter", .cpu_masks = {"0xff00000000000000", "0x00000000000000ff"}};
  const FakeMachine node(64, 4);
  const Environment env{{"CUDA_VISIBLE_DEVICES", "1,0"}, {"SLURM_STEP_GPUS", "0,1"}, {"SLURM_CPUS_PER_TASK", "16"}};
  const auto first = binding_of(local(0, 2, 0), env, site, node.topology(), cpus_of_list("0-7,64-71"));
  EXPECT_EQ(list_of(first.cpus), "0-7,64-71") << "the list is turned round: device 1 comes first";
}

TEST(Affinity, CoresThatAreAllFarAreAWarningWithTheWayOut) {
  FakeMachine node(64, 4);
  for (int gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + static_cast<unsigned>(gpu), 3 - gpu);
  const auto far =
      binding_of(local(0, 4, 0), {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}, {}, node.topology(), cpus_of_list("0-15"));
  EXPECT_EQ(list_of(far.cpus), "0-15");
  EXPECT_HAS(far.warning, "CPUs 0-15 are all far from device 0 (0000:10:00.0)");
  EXPECT_HAS(far.warning, "--gpu-bind=closest");
}

TEST(Affinity, CoresThatSlurmDealtOverTheSocketsAreDealtAnewByTheDevices) {
  FakeMachine node(64, 2);
  for (int gpu = 0; gpu < 4; ++gpu) node.add_nvidia(0x10U + static_cast<unsigned>(gpu), gpu / 2);
  Environment::Map variables{{"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
                             {"SLURM_STEP_GPUS", "0,1,2,3"},
                             {"SLURM_CPUS_PER_TASK", "16"},
                             {"SLURM_CPU_BIND_TYPE", "mask_cpu:"},
                             {"SLURM_CPU_BIND_LIST", "0xffff,0xffff00000000,0xffff0000,0xffff000000000000"}};
  const auto second = binding_of(local(1, 4, 1), Environment(variables), {}, node.topology(), cpus_of_list("32-47"));
  EXPECT_EQ(list_of(second.cpus), "16-31");
  EXPECT_EQ(second.why, "those of the node's tasks that are nearest to device 1 (0000:11:00.0)");
  EXPECT_TRUE(second.is_change);
  const auto third = binding_of(local(2, 4, 2), Environment(variables), {}, node.topology(), cpus_of_list("16-31"));
  EXPECT_EQ(list_of(third.cpus), "32-47");
  const auto first = binding_of(local(0, 4, 0), Environment(variables), {}, node.topology(), cpus_of_list("0-15"));
  EXPECT_FALSE(first.is_change);
  // Somebody has bound this task to other CPUs in the meantime.
  const auto moved = binding_of(local(1, 4, 1), Environment(variables), {}, node.topology(), cpus_of_list("48-63"));
  EXPECT_HAS(moved.warning, "are all far from device 1");
  // The devices of the other tasks are unknown.
  variables["SLURM_LOCALID"] = "1";
  variables["SLURMD_TRES_BIND"] = "gpu:per_task:1";
  const auto own = binding_of(local(1, 4, 0), Environment(variables), {}, node.topology(), cpus_of_list("32-47"));
  EXPECT_EQ(list_of(own.cpus), "32-47");
}

TEST(Affinity, ASitesMaskGoesByTheDeviceAndNotByTheRank) {
  const TaskSettings site{.cluster = "lumi-g", .cpu_masks = kLumiMasks};
  const FakeMachine node(64, 4);
  const auto mask_of = [&](const Placement& at, const Environment& env) {
    return list_of(binding_of(at, env, site, node.topology(), cpus_of_list("0-63")).cpus);
  };
  EXPECT_EQ(mask_of(local(3, 8, 3), kAllOfEight), "25-31");
  // Slurm gave this task the device that is nearest to its cores: number 4.
  EXPECT_EQ(mask_of(local(0, 8, 0), {{"ROCR_VISIBLE_DEVICES", "0"}, {"SLURM_STEP_GPUS", "4"}}), "1-7");
  // A wrapper that shows each task the device with its local rank.
  EXPECT_EQ(mask_of(local(2, 8, 0), {{"ROCR_VISIBLE_DEVICES", "2"}}), "17-23");
  EXPECT_EQ(mask_of(local(5, 8, std::nullopt), {}), "9-15");
}

TEST(Affinity, AMaskBeyondTheCgroupIsNotTakenInPart) {
  const CpuSet allowed = cpus_of_process();
  Binding wanted{.cpus = allowed, .why = "the mask that lumi-g has for device 0", .is_change = true};
  wanted.cpus.insert(65000);
  const auto kept = applied(wanted, allowed);
  EXPECT_EQ(kept.cpus, allowed);
  EXPECT_EQ(cpus_of_process(), allowed);
  EXPECT_HAS(kept.warning, "the job's cgroup does not allow CPUs");
}

TEST(Affinity, AMaskThatIsNoneIsAnError) {
  const TaskSettings site{.cpu_masks = {"all"}};
  const FakeMachine node(4, 1);
  EXPECT_HAS(message_of(ErrorKind::kEnvironment,
                        [&] {
                          binding_of(local(0, 1, 0), {}, site, node.topology(), {0, 1});
                        }),
             "'all' is not a set of CPUs");
}

TEST(Affinity, SharesCoverAllCoresOnce) {
  const CpuSet cpus = cpus_of_list("0-6");
  CpuSet seen;
  for (int part = 0; part < 3; ++part) seen.merge(share_of(cpus, part, 3, 0));
  EXPECT_EQ(seen, cpus);
  EXPECT_EQ(list_of(share_of(cpus, 0, 3, 0)), "0-2");
  EXPECT_EQ(list_of(share_of(cpus_of_list("0-7"), 1, 2, 1)), "4-7") << "threads of a core numbered side by side";
}

TEST(Topology, AMachineThatTellsNothingHasNoDevicesAndCoresOfOneThread) {
  const TemporaryFolder empty;
  const Topology topology(empty.path());
  EXPECT_TRUE(topology.gpus().empty());
  EXPECT_TRUE(topology.cpus_near("0000:01:00.0").empty());
  EXPECT_EQ(topology.cores_of({0, 1, 2}), 3);
  EXPECT_TRUE(topology.numa_of({0}).empty());
}

}  // namespace
}  // namespace lockstep
