// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/affinity.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/launch/dealt_cores.h"
#include "lockstep/launch/placement/device.h"
#include "lockstep/launch/task_devices.h"

namespace lockstep {
namespace {

Binding as_found(const CpuSet& allowed, std::string warning = {}) {
  return {.cpus = allowed, .why = "as the launcher set them", .warning = std::move(warning)};
}

/// "device 3", "devices 0, 1 and 2".
std::string name_devices(const std::vector<std::string>& names) {
  if (names.size() == 1) return "device " + names.front();
  const std::vector<std::string> before(names.begin(), names.end() - 1);
  return "devices " + joined(before, ", ") + " and " + names.back();
}

/// Returns the launcher's binding unchanged, with a note on how many of its CPUs are near the devices.
Binding keep_near(const CpuSet& allowed, const CpuSet& near, const std::string& devices) {
  Binding kept = as_found(allowed);
  if (near != allowed) kept.why += ", " + std::to_string(near.size()) + " of them nearest to " + devices;
  return kept;
}

/// Returns the number of CPUs that Slurm was asked for by -c, as Slurm counts them. 0 if there was no -c.
std::size_t given_cpus(const Environment& env) {
  return static_cast<std::size_t>(std::max(0, env.get_int("SLURM_CPUS_PER_TASK").value_or(0)));
}

/// Adds the second hardware thread of each core, if the launcher's binding has both threads of its cores.
CpuSet with_given_threads(const CpuSet& cpus, const CpuSet& allowed, const Topology& topology) {
  if (allowed.empty() || common(topology.threads_of_core(*allowed.begin()), allowed).size() < 2) return cpus;
  CpuSet all = cpus;
  for (const int cpu : cpus) all.merge(topology.threads_of_core(cpu));
  return all;
}

/// Returns the CPUs in the site's masks for this task's devices. Returns nothing if the site has no masks, or if this
/// task's devices are unknown.
std::optional<Binding> by_masks(const Placement& at, const Environment& env, const TaskSettings& settings,
                                const Topology& topology, const CpuSet& allowed) {
  const auto numbers = device_numbers(at, env, static_cast<int>(settings.cpu_masks.size()));
  if (numbers.empty()) return std::nullopt;
  CpuSet masks;
  std::vector<std::string> names;
  for (const int number : numbers) {
    masks.merge(cpus_of_mask(settings.cpu_masks[static_cast<std::size_t>(number)]));
    names.push_back(std::to_string(number));
  }
  const std::string devices = name_devices(names);
  const std::string why =
      "the mask" + std::string(numbers.size() == 1 ? "" : "s") + " that " + settings.cluster + " has for " + devices;
  Binding binding{.cpus = with_given_threads(masks, allowed, topology), .why = why, .may_widen = true};
  const auto given = given_cpus(env);
  if (binding.cpus.size() < given) {
    const CpuSet near = common(binding.cpus, allowed);
    if (allowed.size() >= given && !near.empty()) return keep_near(allowed, near, devices);
    binding.cpus.insert(allowed.begin(), allowed.end());
    binding.why += ", besides what the launcher set";
  }
  binding.is_change = true;
  return binding;
}

/// How several tasks of this node divide the CPUs that are near to all of them.
struct Sharing {
  int index = 0;
  int parts = 1;
};

/// Returns the GPUs with these `indices`, in their order. Empty if one of them is unknown.
std::vector<Gpu> gpus_of_task(const Environment& env, const std::vector<Gpu>& gpus, const std::vector<int>& indices) {
  std::vector<Gpu> own;
  for (const int index : indices) {
    const auto gpu = gpu_of_device(gpus, env, index);
    if (!gpu) return {};
    own.push_back(*gpu);
  }
  return own;
}

/// True if the launcher bound this task to no more cores than SLURM_CPUS_PER_TASK. Other tasks then have other cores.
bool is_share(const CpuSet& allowed, const Environment& env, const Topology& topology) {
  const auto per_task = env.get_int("SLURM_CPUS_PER_TASK");
  return per_task && topology.cores_of(allowed) <= *per_task;
}

/// The CPUs near the devices of one task, and the names of these devices.
struct NearDevices {
  CpuSet cpus{};        ///< Near any of them. Empty if the kernel does not say.
  std::string names{};  ///< "device 3 (0000:c6:00.0)".
};

/// If no variable is set that limits devices, as on a workstation, all devices of the machine are visible.
NearDevices devices_near(const Placement& at, const Environment& env, const Topology& topology,
                         const std::vector<Gpu>& gpus) {
  const int visible = shown_devices(env).value_or(static_cast<int>(gpus.size()));
  const auto indices = device_indices(at, env, visible);
  const auto own = gpus_of_task(env, gpus, indices);
  NearDevices near;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const CpuSet cpus = topology.cpus_near(own[i].pci);
    if (cpus.empty()) return {};
    near.cpus.insert(cpus.begin(), cpus.end());
    names.push_back(std::to_string(indices[i]) + " (" + own[i].pci + ")");
  }
  if (!names.empty()) near.names = name_devices(names);
  return near;
}

/// Counts the tasks of this node whose devices are near the same CPUs. Also counts how many of them have a lower local
/// rank than this one.
Sharing sharing_of(const Placement& at, const Environment& env, const Topology& topology, const std::vector<Gpu>& gpus,
                   const CpuSet& near) {
  if (shown_devices(env) == 1 || shows_own_devices(env, at.local_rank)) return {};
  Sharing sharing{.index = 0, .parts = 0};
  Placement other = at;
  for (other.local_rank = 0; other.local_rank < at.local_world; ++other.local_rank) {
    if (devices_near(other, env, topology, gpus).cpus != near) continue;
    if (other.local_rank < at.local_rank) ++sharing.index;
    ++sharing.parts;
  }
  return sharing;
}

/// Returns this task's part of the CPU sets that Slurm gave this node's tasks, distributed again by their devices.
/// Returns `allowed` if Slurm did not distribute them, or if the other tasks' devices are unknown.
CpuSet dealt_anew(const Placement& at, const Environment& env, const Topology& topology, const std::vector<Gpu>& gpus,
                  const CpuSet& allowed) {
  const auto given = cpus_bound_by_slurm(env);
  const auto self = static_cast<std::size_t>(at.local_rank);
  if (std::ssize(given) != at.local_world || given[self] != allowed) return allowed;
  if (shown_devices(env) == 1 || shows_own_devices(env, at.local_rank)) return allowed;
  std::vector<CpuSet> near;
  Placement other = at;
  for (other.local_rank = 0; other.local_rank < at.local_world; ++other.local_rank) {
    near.push_back(devices_near(other, env, topology, gpus).cpus);
  }
  return deal_cores(given, near)[self];
}

Binding by_topology(const Placement& at, const Environment& env, const Topology& topology, const CpuSet& allowed) {
  const auto gpus = topology.gpus();
  const auto [near, devices] = devices_near(at, env, topology, gpus);
  if (near.empty()) return as_found(allowed);
  CpuSet cpus = common(near, allowed);
  if (const CpuSet dealt = dealt_anew(at, env, topology, gpus, allowed); dealt != allowed) {
    return {.cpus = dealt, .why = "those of the node's tasks that are nearest to " + devices, .is_change = true};
  }
  if (cpus.empty()) {
    return as_found(allowed, "CPUs " + list_of(allowed) + " are all far from " + devices + ", whose are " +
                                 list_of(near) + ": start with srun --gpu-bind=closest, or with --cpu-bind=mask_cpu");
  }
  if (is_share(allowed, env, topology)) return keep_near(allowed, cpus, devices);
  if (cpus.size() < allowed.size() && at.local_world > 1) {
    const Sharing sharing = sharing_of(at, env, topology, gpus, near);
    const bool is_enough = topology.cores_of(cpus) >= sharing.parts;
    if (is_enough) cpus = share_of(cpus, sharing.index, sharing.parts, topology.sibling_distance(*cpus.begin()));
  }
  if (cpus.size() < given_cpus(env)) return keep_near(allowed, common(near, allowed), devices);
  return {.cpus = cpus, .why = "nearest to " + devices, .is_change = cpus != allowed};
}

}  // namespace

CpuSet share_of(const CpuSet& cpus, int index, int parts, int sibling) {
  std::vector<CpuSet> cores;
  std::map<int, std::size_t> core_of_first;
  for (const int cpu : cpus) {
    const auto first = sibling > 0 ? core_of_first.find(cpu - sibling) : core_of_first.end();
    if (first != core_of_first.end()) {
      cores[first->second].insert(cpu);
    } else {
      core_of_first[cpu] = cores.size();
      cores.push_back({cpu});
    }
  }
  const int count = static_cast<int>(cores.size());
  const int base = count / parts;
  const int larger = count % parts;
  const int first = index * base + std::min(index, larger);
  CpuSet share;
  for (int core = first; core < first + base + (index < larger ? 1 : 0); ++core) {
    share.insert(cores[static_cast<std::size_t>(core)].begin(), cores[static_cast<std::size_t>(core)].end());
  }
  return share;
}

Binding binding_of(const Placement& at, const Environment& env, const TaskSettings& settings, const Topology& topology,
                   const CpuSet& allowed) {
  if (!settings.cpu_masks.empty()) {
    if (auto binding = by_masks(at, env, settings, topology, allowed)) return *std::move(binding);
  }
  return by_topology(at, env, topology, allowed);
}

Binding applied(const Binding& binding, const CpuSet& allowed) {
  if (!binding.is_change) return binding;
  const CpuSet before = cpus_of_process();
  if (bind_process(binding.cpus) == binding.cpus) return binding;
  bind_process(before);
  return as_found(allowed, "the job's cgroup does not allow CPUs " + list_of(binding.cpus) + ", " + binding.why +
                               ": ask for whole nodes (--exclusive)");
}

std::string report_of(const Binding& binding, const Topology& topology) {
  const int cores = topology.cores_of(binding.cpus);
  std::string text = "CPUs " + list_of(binding.cpus) + " (" + counted(cores, "core");
  const auto domains = topology.numa_of(binding.cpus);
  for (std::size_t i = 0; i < domains.size(); ++i) text += (i == 0 ? ", NUMA " : "+") + std::to_string(domains[i]);
  return text + "), " + binding.why;
}

}  // namespace lockstep
