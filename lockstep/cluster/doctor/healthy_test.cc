// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>

#include "tests/support/fake_node.h"
#include "tests/support/node_faults.h"

namespace lockstep {
namespace {

using testing::FakeNode;

/// A node with which all is well, and the task on it.
struct Layout {
  std::string name{};  ///< Of its test.
  std::string profile{};
  testing::Change made{};
};

void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.profile; }

const std::vector<Layout> kLayouts = {
    {"LumiWithEightTasksOnFourNodes", "lumi-g",
     [](FakeNode& node) {
       node.amd_gpus(8);
       node.slingshot();
       node.slurm(4, 8, 8);
       node.set("SLURM_CPUS_PER_TASK", "7");
     }},
    {"LumiWithinItsContainer", "lumi-g",
     [](FakeNode& node) {
       node.amd_gpus(8);
       node.slingshot();
       node.slurm(2, 8, 8);
       node.set("SINGULARITY_CONTAINER", "/appl/image.sif");
       node.set("CONDA_PREFIX", "/opt/miniconda3/envs/pytorch");
       node.write("/opt/miniconda3/envs/pytorch/bin/python3", "");
     }},
    {"FrontierWithOneDeviceShownToEachTask", "frontier",
     [](FakeNode& node) {
       node.amd_gpus(1);  // KFD hides those of the other tasks.
       node.slingshot();
       node.slurm(2, 8, 8);
       node.set({{"SLURM_CPUS_PER_TASK", "7"}, {"ROCR_VISIBLE_DEVICES", "0"}});
     }},
    {"FrontierOnOneNodeWithSocketsAsTheSiteWants", "frontier",
     [](FakeNode& node) {
       node.amd_gpus(8);
       node.slingshot();
       node.slurm(1, 8, 8);
       node.set("NCCL_NET", "Socket");
     }},
    {"JuwelsWithFourTasksOnTwoNodes", "juwels-booster",
     [](FakeNode& node) {
       node.nvidia_gpus(4);
       node.infiniband();
       node.slurm(2, 4, 4);
       node.set({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"NCCL_SOCKET_IFNAME", "ib0"}});
     }},
    {"RocmClusterWithOneTaskOfAllDevices", "crukci-rocm",
     [](FakeNode& node) {
       node.amd_gpus(8, 90006);
       node.slurm(1, 1, 8);
     }},
    {"PerlmutterWithDevicesInReverse", "perlmutter",
     [](FakeNode& node) {
       node.nvidia_gpus(4);
       node.slingshot();
       node.write("/opt/plugin/lib/libnccl-net.so", testing::elf_stub({.needed = {"libfabric.so.1"}}));
       node.slurm(4, 4, 4);
       node.set({{"CUDA_VISIBLE_DEVICES", "3,2,1,0"}, {"FI_MR_CACHE_MONITOR", "userfaultfd"}});
     }},
    {"GenericSlurmWithOneCoreForEachOfManyTasks", "generic",
     [](FakeNode& node) {
       node.slurm(2, 32);
       node.of.system.allowed = {3};
     }},
    {"WorkstationWithTwoDevices", "generic", [](FakeNode& node) { node.nvidia_gpus(2); }},
    {"LoginNodeOfASystemWithoutDevices", "lumi-g",
     [](FakeNode& node) {
       node.of.system.limits.locked_bytes = {65536, 65536};
     }},
    {"TorchrunUnderOneTaskOnEachNode", "juwels-booster",
     [](FakeNode& node) {
       node.nvidia_gpus(4);
       node.infiniband();
       node.slurm(2, 1, 4);
       node.set({{"TORCHELASTIC_RUN_ID", "4711"},
                 {"RANK", "0"},
                 {"WORLD_SIZE", "8"},
                 {"LOCAL_RANK", "0"},
                 {"LOCAL_WORLD_SIZE", "4"},
                 {"GROUP_RANK", "0"},
                 {"GROUP_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "10.13.0.1"},
                 {"MASTER_PORT", "29500"},
                 {"TORCHELASTIC_RESTART_COUNT", "0"},
                 {"TORCHELASTIC_MAX_RESTARTS", "0"}});
       node.of.system.is_port_free = [](int) { return false; };  // torchrun itself listens there.
     }},
};

struct HealthyLayout : ::testing::TestWithParam<Layout> {};

TEST_P(HealthyLayout, HasNothingWorseThanANote) {
  FakeNode node(GetParam().profile);
  GetParam().made(node);
  auto bad = node.findings();
  std::erase_if(bad, [](const Finding& finding) { return finding.severity == Severity::kNote; });
  EXPECT_TRUE(bad.empty()) << testing::listed(bad);
}

INSTANTIATE_TEST_SUITE_P(, HealthyLayout, ::testing::ValuesIn(kLayouts),
                         [](const auto& layout) { return layout.param.name; });

}  // namespace
}  // namespace lockstep
