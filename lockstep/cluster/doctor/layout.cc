// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/cluster/doctor/devices.h"
#include "lockstep/cluster/doctor/nodes.h"
#include "lockstep/launch/affinity.h"
#include "lockstep/launch/topology.h"

namespace lockstep {
namespace {

void check_cores(const DoctorContext& of, Findings& findings) {
  const auto& allowed = of.system.allowed;
  const Topology topology(of.root);
  const int cores = topology.cores_of(allowed);
  const auto per_task = of.env.get_int("SLURM_CPUS_PER_TASK");
  if (per_task && static_cast<int>(allowed.size()) < *per_task) {
    findings.warning("layout-cores-not-given",
                     "the job asks for " + std::to_string(*per_task) + " CPUs a task, but this task may use " +
                         std::to_string(allowed.size()) + " (" + list_of(allowed) +
                         "): srun ignores sbatch's --cpus-per-task since Slurm 22.05",
                     "write it on srun too: srun -c " + std::to_string(*per_task) +
                         ", or export SRUN_CPUS_PER_TASK=" + std::to_string(*per_task));
  } else if (cores == 1 && of.in_job() && !usable_gpus(of).empty()) {
    findings.warning(
        "layout-few-cores",
        "this task has a device and one core, CPU " + list_of(allowed) +
            ", for the program, its data loader and the network: the device will wait for data",
        "ask for more: srun -c " + std::to_string(std::max<std::int64_t>(of.profile.sbatch.cores_per_device, 4)));
  }
  const auto on_node = of.env.get_int("SLURM_CPUS_ON_NODE");
  if (on_node && of.at.source == "slurm" && *on_node < of.at.local_world) {
    findings.error("layout-overcommitted",
                   "the job has " + std::to_string(*on_node) + " CPUs on this node for " +
                       std::to_string(of.at.local_world) + " tasks, want at least one each",
                   "leave out --overcommit and ask for CPUs: -c 4, or for whole nodes: --exclusive");
  }
  const auto threads = of.env.get("OMP_NUM_THREADS");
  const auto number = threads ? parsed_int<int>(split(*threads, ',').front()) : std::nullopt;
  if (number && !allowed.empty() && *number > static_cast<int>(allowed.size())) {
    findings.warning("layout-too-many-threads",
                     "OMP_NUM_THREADS is " + *threads + ", but this task may use " +
                         counted(std::ssize(allowed), "CPU") + " (" + list_of(allowed) + "): its threads take turns",
                     "leave OMP_NUM_THREADS unset, `lockstep exec` sets it; or set it to " + std::to_string(cores));
  }
}

void check_device_counts(const DoctorContext& of, Findings& findings) {
  const auto devices = devices_on_node(of);
  if (!devices || *devices == 0) return;
  const auto tasks = counted(of.at.local_world, "task");
  if (of.at.local_world > *devices) {
    findings.error("layout-device-shared",
                   tasks + " on this node share " + counted(*devices, "device") + ", want one task for each",
                   "ask for as many tasks as devices: --ntasks-per-node=" + std::to_string(*devices) +
                       " --gpus-per-node=" + std::to_string(*devices));
  } else if (of.at.local_world < *devices && of.at.source != "single") {
    const std::string fact = "the job has " + std::to_string(*devices) + " devices on this node and " + tasks;
    const std::string fix = "start one task for each device: --ntasks-per-node=" + std::to_string(*devices);
    // One task with all devices is not a fault, since `lockstep train` and torchrun are started so.
    if (of.at.local_world == 1) {
      findings.note("layout-device-idle", fact + ": a program that does not start ranks of its own uses one", fix);
    } else {
      findings.warning("layout-device-idle", fact + ": the others are paid for and idle", fix);
    }
  }
}

void check_peers(const DoctorContext& of, Findings& findings) {
  const auto usable = usable_gpus(of);
  const auto on_node = of.env.get_int("SLURM_GPUS_ON_NODE");
  const bool is_nvidia = !usable.empty() && usable.front().maker == GpuMaker::kNvidia;
  if (!is_nvidia || of.at.local_world < 2 || !on_node) return;
  if (static_cast<int>(usable.size()) >= *on_node) return;
  findings.warning("layout-hidden-peers",
                   "a cgroup lets this task open " + std::to_string(usable.size()) + " of the node's " +
                       std::to_string(*on_node) +
                       " NVIDIA devices: ranks of one node then cannot copy from device to device and go through the "
                       "host's memory",
                   "ask with --gpus-per-node=" + std::to_string(*on_node) +
                       " instead of --gpus-per-task, and add --gpu-bind=none to srun");
}

void check_nesting(const DoctorContext& of, Findings& findings) {
  const auto tasks = of.env.get_int("SLURM_STEP_NUM_TASKS");
  const auto nodes = of.env.get_int("SLURM_STEP_NUM_NODES");
  if (!tasks || !nodes || *tasks <= *nodes) return;
  const bool by_torchrun = of.env.get("TORCHELASTIC_RUN_ID").has_value();
  const auto by_mpi = of.env.get_int("OMPI_COMM_WORLD_SIZE");
  if (!by_torchrun && (!by_mpi || *by_mpi == *tasks)) return;
  const std::string inner = by_torchrun ? "torchrun" : "mpirun";
  findings.error("layout-nested-launcher",
                 "srun started " + std::to_string(*tasks) + " tasks on " + counted(*nodes, "node") +
                     ", and each runs " + inner + ", which starts ranks of its own: " + std::to_string(*tasks) +
                     " launchers where " + std::to_string(*nodes) + " would be wanted",
                 "leave " + inner + " out: srun lockstep exec -- python train.py; or keep it under one task a node: " +
                     "srun --ntasks-per-node=1 " + inner + " …");
}

void check_distance(const DoctorContext& of, Findings& findings) {
  if (of.at.source == "single" || of.system.allowed.empty()) return;
  TaskSettings settings;
  settings.cluster = of.profile.name;
  const auto binding = binding_of(of.at, of.env, settings, Topology(of.root), of.system.allowed);
  if (binding.warning.empty()) return;
  const auto colon = binding.warning.rfind(": ");
  findings.warning("layout-far-cores", binding.warning.substr(0, colon), binding.warning.substr(colon + 2));
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

void check_tasks_of_node(const std::vector<const TaskReport*>& tasks, const std::string& host, Findings& findings) {
  std::map<std::string, std::vector<int>> by_device;
  std::set<std::string> cpus;
  for (const auto* task : tasks) {
    if (!task->device.empty()) by_device[task->device].push_back(task->rank);
    cpus.insert(task->cpus);
  }
  for (const auto& [device, ranks] : by_device) {
    if (ranks.size() < 2) continue;
    findings.error(
        "layout-device-shared",
        "ranks " + ranks_text(ranks) + " on " + host + " take the same device, " + device + ", want one rank for each",
        "start each with `lockstep exec`, which gives a task its own; do not export CUDA_VISIBLE_DEVICES or "
        "ROCR_VISIBLE_DEVICES with one number for all tasks");
  }
  if (tasks.size() < 2 || cpus.size() != 1) return;
  const auto cores = tasks.front()->cores;
  if (cores == 0 || cores >= static_cast<int>(tasks.size())) return;
  findings.error("layout-one-core",
                 "all " + std::to_string(tasks.size()) + " tasks on " + host + " run on CPU " + *cpus.begin() + " (" +
                     counted(cores, "core") + "), want cores of their own",
                 "give each its cores: srun -c 4 --cpu-bind=cores; in a batch script export SRUN_CPUS_PER_TASK too");
}

}  // namespace

void check_layout(const DoctorContext& of, Findings& findings) {
  check_cores(of, findings);
  check_device_counts(of, findings);
  check_peers(of, findings);
  check_nesting(of, findings);
  check_distance(of, findings);
}

void check_tasks(const std::vector<TaskReport>& tasks, Findings& findings) {
  std::map<int, std::vector<const TaskReport*>> by_node;
  for (const auto& task : tasks) by_node[task.node_rank].push_back(&task);
  for (const auto& [node, of_node] : by_node) check_tasks_of_node(of_node, of_node.front()->host, findings);
}

}  // namespace lockstep
