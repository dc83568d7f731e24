// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/cluster/profile/library.h"
#include "lockstep/cluster/task/exec_task.h"
#include "lockstep/launch/task_environment.h"
#include "tests/support/fake_machine.h"

// Tests each task that a site's Slurm may start, on a node of that site. The nodes are written down here from the
// sites' own pages, and not from the profiles. So a wrong mask or order in a profile is found.

namespace lockstep {
namespace {

using testing::FakeMachine;

struct Machine {
  const char* profile;
  bool is_amd;
  int cores;
  std::vector<int> domain_of_device;
  int domains;
  bool counts_threads;        ///< Slurm's -c counts both threads of a core.
  bool keeps_first_of_eight;  ///< The first core of each eight is the system's.
  const char* order;          ///< The visible devices that the site's script sets. Empty for Slurm's own.

  int devices() const { return static_cast<int>(domain_of_device.size()); }
};

const std::array<Machine, 7> kMachines = {{
    {"lumi-g", true, 64, {3, 3, 1, 1, 0, 0, 2, 2}, 4, false, true, ""},
    {"frontier", true, 64, {3, 3, 1, 1, 0, 0, 2, 2}, 4, false, true, ""},
    {"juwels-booster", false, 48, {3, 1, 7, 5}, 8, false, false, ""},
    {"perlmutter", false, 64, {3, 2, 1, 0}, 4, true, false, "3,2,1,0"},
    {"leonardo", false, 32, {0, 0, 0, 0}, 1, false, false, ""},
    {"crukci-rocm", true, 80, {0, 0, 0, 0, 1, 1, 1, 1}, 2, false, false, ""},
    {"generic", false, 64, {0, 0, 1, 1}, 2, true, false, ""},
}};

void add_devices(FakeMachine& node, const Machine& machine) {
  if (machine.is_amd) {
    for (int domain = 0; domain < machine.domains; ++domain) {
      node.write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(domain) + "/properties", "simd_count 0\n");
    }
  }
  unsigned bus = 0x10;
  for (const int domain : machine.domain_of_device) {
    machine.is_amd ? node.add_amd(bus, domain) : node.add_nvidia(bus, domain);
    bus += 0x10;
  }
}

/// A launch of `tasks` tasks on a whole node, each with `each` devices and -c `cores`.
struct Launch {
  const Machine& machine;
  int tasks;
  int each;
  int cores;
  std::string order;
};

std::string say(const Launch& launch, int rank) {
  return std::string(launch.machine.profile) + ": " + std::to_string(launch.tasks) + " tasks of " +
         std::to_string(launch.each) + " devices, -c " + std::to_string(launch.cores) + ", order '" + launch.order +
         "', rank " + std::to_string(rank);
}

/// Returns the CPUs to which Slurm binds a task by itself: -c of the CPUs that jobs may use, one task after the other.
CpuSet given_by_slurm(const Launch& launch, int rank) {
  const Machine& machine = launch.machine;
  std::vector<int> usable;
  for (int core = 0; core < machine.cores; ++core) {
    if (!machine.keeps_first_of_eight || core % 8 != 0) usable.push_back(core);
  }
  const int cores = machine.counts_threads ? launch.cores / 2 : launch.cores;
  CpuSet given;
  for (int i = rank * cores; i < (rank + 1) * cores; ++i) {
    const int core = usable.at(static_cast<std::size_t>(i));
    given.insert(core);
    if (machine.counts_threads) given.insert(core + machine.cores);
  }
  return given;
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + std::to_string(i);
  return text;
}

struct Started {
  Binding binding;
  TaskEnvironment environment;
  std::vector<int> own;  ///< The numbers, on the node, of the devices that the program takes.
};

/// Does what `lockstep exec` does for a task: the order of the devices, the placement, the CPUs and the variables.
Started start(const Launch& launch, int rank, const Topology& topology) {
  const Machine& machine = launch.machine;
  const auto settings = settings_of(ProfileLibrary(Environment{}).named(machine.profile));
  const char* list = machine.is_amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  const int held = launch.tasks * launch.each;
  Environment::Map variables{{"SLURM_JOB_ID", "7"},
                             {"SLURM_STEP_ID", "0"},
                             {"SLURM_NTASKS", std::to_string(launch.tasks)},
                             {"SLURM_STEP_NUM_TASKS", std::to_string(launch.tasks)},
                             {"SLURM_STEP_NUM_NODES", "1"},
                             {"SLURM_STEP_NODELIST", "n1"},
                             {"SLURM_STEP_TASKS_PER_NODE", std::to_string(launch.tasks)},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_PROCID", std::to_string(rank)},
                             {"SLURM_LOCALID", std::to_string(rank)},
                             {"SLURM_CPUS_PER_TASK", std::to_string(launch.cores)},
                             {"SLURM_STEP_GPUS", numbers(held)},
                             {list, launch.order.empty() ? numbers(held) : launch.order}};
  const auto env = with_device_order(Environment(std::move(variables)), settings);
  const auto at = placement_from(env);
  Started started;
  started.binding = binding_of(at, env, settings, topology, given_by_slurm(launch, rank));
  TaskFacts facts{.master = {"127.0.0.1", 20000}, .gpu_maker = machine.is_amd ? GpuMaker::kAmd : GpuMaker::kNvidia};
  started.environment = task_environment(at, env, settings, facts);
  const auto shown = split(started.environment.env.get(list).value_or(""), ',');
  for (int i = 0; i < launch.each; ++i) {
    started.own.push_back(std::stoi(shown.at(static_cast<std::size_t>((rank * launch.each) + i))));
  }
  return started;
}

bool is_near(const Topology& topology, const std::vector<Gpu>& gpus, int device, const CpuSet& cpus) {
  return !common(topology.cpus_near(gpus.at(static_cast<std::size_t>(device)).pci), cpus).empty();
}

bool has_masks(const Machine& machine) {
  return !ProfileLibrary(Environment{}).named(machine.profile).devices.cpu_masks.empty();
}

void check(const Launch& launch, const Topology& topology) {
  const auto gpus = topology.gpus();
  for (int rank = 0; rank < launch.tasks; ++rank) {
    const Started started = start(launch, rank, topology);
    const auto& cpus = started.binding.cpus;
    EXPECT_GE(static_cast<int>(cpus.size()), launch.cores) << say(launch, rank) << ", on " << list_of(cpus);
    // If the site has no masks, a task keeps Slurm's own binding. It gets a warning if all of these CPUs are far from
    // its device.
    const auto near =
        std::ranges::count_if(started.own, [&](const int device) { return is_near(topology, gpus, device, cpus); });
    const int wanted = has_masks(launch.machine) ? launch.each : started.binding.warning.empty() ? 1 : 0;
    EXPECT_GE(near, wanted) << say(launch, rank) << ", on " << list_of(cpus);
    const char* list = launch.machine.is_amd ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    EXPECT_EQ(std::ssize(split(started.environment.env.get(list).value_or(""), ',')), launch.tasks * launch.each)
        << say(launch, rank) << ": a task sees all devices of its job";
  }
}

std::vector<std::string> orders_of(const Machine& machine, int held) {
  std::vector<std::string> orders = {""};
  if (held != machine.devices()) return orders;
  std::vector<std::string> reversed;
  for (int i = held - 1; i >= 0; --i) reversed.push_back(std::to_string(i));
  orders.push_back(joined(reversed, ","));
  if (*machine.order != '\0' && machine.order != orders.back()) orders.emplace_back(machine.order);
  return orders;
}

TEST(PlacementTable, EachTaskHoldsItsCoresNearItsDevices) {
  int combinations = 0;
  for (const auto& machine : kMachines) {
    FakeMachine node(machine.cores, machine.domains);
    add_devices(node, machine);
    const Topology topology = node.topology();
    const int usable = machine.keeps_first_of_eight ? machine.cores / 8 * 7 : machine.cores;
    const int slots = machine.counts_threads ? usable * 2 : usable;
    for (int tasks = 1; tasks <= machine.devices(); tasks *= 2) {
      for (int each = 1; tasks * each <= machine.devices(); each *= 2) {
        const int share = slots / machine.devices() * each;  // What the site gives with so many devices.
        for (const int cores : {2, share, slots / tasks}) {
          for (const auto& order : orders_of(machine, tasks * each)) {
            check({machine, tasks, each, std::min(cores, slots / tasks), order}, topology);
            ++combinations;
          }
        }
      }
    }
  }
  EXPECT_GE(combinations, 100);
}

}  // namespace
}  // namespace lockstep
