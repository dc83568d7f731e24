// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/survey/live_check.h"

#include <gtest/gtest.h>

#include "lockstep/base/map_each.h"

namespace lockstep {
namespace {

Profile four_devices() {
  Profile profile;
  profile.node.cores = 8;
  profile.node.memory_gib = 100;
  profile.node.numa_domains = 2;
  profile.devices.count = 4;
  profile.devices.backend = "cuda";
  profile.devices.numa = {0, 0, 1, 1};
  profile.network.interfaces = {"hsn0,hsn1", "ib*"};
  profile.modules.load = {"PyTorch"};
  profile.storage.node_local = "/tmp";
  return profile;
}

NodeView sound() {
  NodeView view{.host = "n1", .cpus = 8, .allowed_cpus = 2, .numa_domains = 2, .memory_mib = 99000};
  for (const int numa : {0, 0, 1, 1}) view.devices.push_back({.is_amd = false, .pci = "x", .numa = numa});
  view.given_devices = 4;
  view.shown_devices = 4;
  view.interfaces = {{"ib0", "10.0.0.1", 0}};
  view.folders = {{"/tmp", "xfs", true}};
  view.modules = {"PyTorch/2.5"};
  return view;
}

std::vector<std::string> differences(const NodeView& first, int tasks = 4) {
  const std::vector<NodeView> views = {first, sound(), sound(), sound()};
  return map_each(live_differences(four_devices(), {.tasks = tasks, .cores_per_task = 2, .devices = 4}, views),
                  [](const auto& each) { return each.key + ": " + each.found + ", want " + each.wanted; });
}

using Lines = std::vector<std::string>;

TEST(LiveCheck, FindsNothingOnANodeThatIsAsTheProfileSays) {
  EXPECT_EQ(differences(sound()), Lines{});
  auto view = sound();
  view.shown_devices = 1;  // Its own alone.
  view.memory_mib = 900'000;
  EXPECT_EQ(differences(view), Lines{}) << "more memory is no fault";
}

TEST(LiveCheck, TellsEachDifferenceWithWhatIsFoundAndWanted) {
  auto view = sound();
  view.cpus = 4;
  view.allowed_cpus = 1;
  view.memory_mib = 51'200;
  view.shown_devices = 0;
  view.given_devices = 2;
  view.interfaces = {{"eth0", "10.0.0.1", 0}};
  view.folders = {{"/tmp", "", false}, {"/scratch/me", "lustre", false}};
  view.modules = {};
  EXPECT_EQ(differences(view),
            (Lines{"sbatch.cores_per_device: task 0 may run on 1 CPU, want 2",
                   "sbatch.devices: task 0 is shown 0 devices, want 1 device or more",
                   "node.cores: 4 CPUs on n1, want 8", "node.memory_gib: 50 GiB on n1, want 100 GiB",
                   "devices.count: 2 devices of this job on n1, want 4 devices",
                   "network.interfaces: eth0 on n1, want one of hsn0,hsn1 or ib*",
                   "storage.node_local: '/tmp' is not there, or not yours to write in, on n1, want a folder that a job "
                   "may write in",
                   "storage.scratch: '/scratch/me' is not there, or not yours to write in, on n1, want a folder that a "
                   "job may write in",
                   "modules.load: no module is loaded, want PyTorch"}));
}

TEST(LiveCheck, TellsOfOtherDevicesAndOfTasksThatDidNotReport) {
  auto view = sound();
  for (auto& device : view.devices) device = {.is_amd = true, .pci = "x", .numa = 0};
  EXPECT_EQ(differences(view, 8),
            (Lines{"sbatch: 4 tasks reported, want 8 tasks", "devices.backend: rocm by the drivers on n1, want cuda",
                   "devices.numa: 0 0 0 0 on n1, want 0 0 1 1"}));
}

}  // namespace
}  // namespace lockstep
