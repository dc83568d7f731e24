// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/support/fake_node.h"

namespace lockstep {
namespace {

using testing::FakeNode;
using testing::listed;

void expect_healthy(const FakeNode& node) {
  std::vector<Finding> bad;
  for (const auto& finding : node.findings()) {
    if (finding.severity != Severity::kNote) bad.push_back(finding);
  }
  EXPECT_TRUE(bad.empty()) << listed(bad);
}

TEST(HealthyLayout, LumiWithEightTasksOnFourNodes) {
  FakeNode node("lumi-g");
  node.amd_gpus(8);
  node.slingshot();
  node.slurm(4, 8, 8);
  node.set("SLURM_CPUS_PER_TASK", "7");
  expect_healthy(node);
}

TEST(HealthyLayout, LumiWithinItsContainer) {
  FakeNode node("lumi-g");
  node.amd_gpus(8);
  node.slingshot();
  node.slurm(2, 8, 8);
  node.set("SINGULARITY_CONTAINER", "/appl/image.sif");
  node.set("CONDA_PREFIX", "/opt/miniconda3/envs/pytorch");
  node.write("/opt/miniconda3/envs/pytorch/bin/python3", "");
  expect_healthy(node);
}

TEST(HealthyLayout, FrontierWithOneDeviceShownToEachTask) {
  FakeNode node("frontier");
  node.amd_gpus(1);  // KFD hides those of the other tasks.
  node.slingshot();
  node.slurm(2, 8, 8);
  node.set("SLURM_CPUS_PER_TASK", "7");
  node.set("ROCR_VISIBLE_DEVICES", "0");
  expect_healthy(node);
}

TEST(HealthyLayout, FrontierOnOneNodeWithSocketsAsTheSiteWants) {
  FakeNode node("frontier");
  node.amd_gpus(8);
  node.slingshot();
  node.slurm(1, 8, 8);
  node.set("NCCL_NET", "Socket");
  expect_healthy(node);
}

TEST(HealthyLayout, JuwelsWithFourTasksOnTwoNodes) {
  FakeNode node("juwels-booster");
  node.nvidia_gpus(4);
  node.infiniband();
  node.slurm(2, 4, 4);
  node.set("CUDA_VISIBLE_DEVICES", "0,1,2,3");
  node.set("NCCL_SOCKET_IFNAME", "ib0");
  expect_healthy(node);
}

TEST(HealthyLayout, RocmClusterWithOneTaskOfAllDevices) {
  FakeNode node("crukci-rocm");
  node.amd_gpus(8, 90006);
  node.slurm(1, 1, 8);
  expect_healthy(node);
}

TEST(HealthyLayout, PerlmutterWithDevicesInReverse) {
  FakeNode node("perlmutter");
  node.nvidia_gpus(4);
  node.slingshot();
  node.write("/opt/plugin/lib/libnccl-net.so", testing::elf_stub({.needed = {"libfabric.so.1"}}));
  node.slurm(4, 4, 4);
  node.set("CUDA_VISIBLE_DEVICES", "3,2,1,0");
  node.set("FI_MR_CACHE_MONITOR", "userfaultfd");
  expect_healthy(node);
}

TEST(HealthyLayout, GenericSlurmWithOneCoreForEachOfManyTasks) {
  FakeNode node;
  node.slurm(2, 32);
  node.of.system.allowed = {3};
  expect_healthy(node);
}

TEST(HealthyLayout, WorkstationWithTwoDevices) {
  FakeNode node;
  node.nvidia_gpus(2);
  expect_healthy(node);
}

TEST(HealthyLayout, LoginNodeOfASystemWithoutDevices) {
  FakeNode node("lumi-g");
  node.of.system.limits.locked_bytes = {65536, 65536};
  expect_healthy(node);
}

TEST(HealthyLayout, TorchrunUnderOneTaskOnEachNode) {
  FakeNode node("juwels-booster");
  node.nvidia_gpus(4);
  node.infiniband();
  node.slurm(2, 1, 4);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"TORCHELASTIC_RUN_ID", "4711"},
                                                        {"RANK", "0"},
                                                        {"WORLD_SIZE", "8"},
                                                        {"LOCAL_RANK", "0"},
                                                        {"LOCAL_WORLD_SIZE", "4"},
                                                        {"GROUP_RANK", "0"},
                                                        {"GROUP_WORLD_SIZE", "2"},
                                                        {"MASTER_ADDR", "10.13.0.1"},
                                                        {"MASTER_PORT", "29500"},
                                                        {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                        {"TORCHELASTIC_MAX_RESTARTS", "0"}}) {
    node.set(name, value);
  }
  node.of.system.is_port_free = [](int) { return false; };  // torchrun itself listens there.
  expect_healthy(node);
}

}  // namespace
}  // namespace lockstep
