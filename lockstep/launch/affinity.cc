// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/affinity.h"

#include <algorithm>
#include <map>

#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"

namespace lockstep {
namespace {

Binding as_found(const CpuSet& allowed, std::string warning = {}) {
  return {.cpus = allowed, .why = "as the launcher set them", .warning = std::move(warning)};
}

Binding by_mask(const TaskSettings& settings, int number) {
  const auto& mask = settings.cpu_masks[static_cast<std::size_t>(number)];
  return {.cpus = cpus_of_mask(mask),
          .why = "the mask that " + settings.cluster + " has for device " + std::to_string(number),
          .is_change = true,
          .may_widen = true};
}

/// How the tasks of this node that have the same CPUs near share them.
struct Sharing {
  int index = 0;
  int parts = 1;
};

Sharing sharing_of(const Placement& at, const Environment& env, const Topology& topology, const std::vector<Gpu>& gpus,
                   const CpuSet& near) {
  Sharing sharing{.index = 0, .parts = 0};
  for (int other = 0; other < at.local_world; ++other) {
    const auto gpu = gpu_of_device(gpus, env, other);
    if (!gpu || topology.cpus_near(gpu->pci) != near) continue;
    if (other < at.local_rank) ++sharing.index;
    ++sharing.parts;
  }
  return sharing.parts == 0 ? Sharing{} : sharing;
}

/// Whether the launcher gave each task CPUs of its own, rather than all of the node's.
bool is_share(const CpuSet& allowed, const Environment& env, const Topology& topology) {
  const auto per_task = env.get_int("SLURM_CPUS_PER_TASK");
  return per_task && topology.cores_of(allowed) <= *per_task;
}

/// Where no variable speaks of devices at all, as on a workstation, each task takes the one with its local rank.
std::optional<int> device_index(const Placement& at, const Environment& env) {
  if (at.device) return at.device;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    if (env.all().contains(name)) return std::nullopt;
  }
  return at.local_rank;
}

Binding by_device(const Placement& at, const Environment& env, const Topology& topology, const CpuSet& allowed) {
  const auto index = device_index(at, env);
  if (!index) return as_found(allowed);
  const auto gpus = topology.gpus();
  const auto gpu = gpu_of_device(gpus, env, *index);
  if (!gpu) return as_found(allowed);
  const CpuSet near = topology.cpus_near(gpu->pci);
  if (near.empty()) return as_found(allowed);
  const std::string device = "device " + std::to_string(*index) + " (" + gpu->pci + ")";
  CpuSet cpus = common(near, allowed);
  if (cpus.empty()) {
    return as_found(allowed, "CPUs " + list_of(allowed) + " are all far from " + device + ", whose are " +
                                 list_of(near) + ": start with srun --gpu-bind=closest, or with --cpu-bind=mask_cpu");
  }
  if (is_share(allowed, env, topology)) {
    Binding kept = as_found(allowed);
    kept.why += ", " + std::to_string(cpus.size()) + " of them nearest to " + device;
    return kept;
  }
  if (cpus.size() < allowed.size() && *index == at.local_rank && at.local_world > 1) {
    const Sharing sharing = sharing_of(at, env, topology, gpus, near);
    const bool is_enough = topology.cores_of(cpus) >= sharing.parts;
    if (is_enough) cpus = share_of(cpus, sharing.index, sharing.parts, topology.sibling_distance(*cpus.begin()));
  }
  return {.cpus = cpus, .why = "nearest to " + device, .is_change = cpus != allowed};
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

std::optional<int> device_number(const Placement& at, const Environment& env) {
  const auto local = static_cast<std::size_t>(at.local_rank);
  bool is_told = false;
  for (const char* name : {"SLURM_STEP_GPUS", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const auto text = env.get(name);
    if (!text) continue;
    is_told = true;
    const auto entries = split(*text, ',');
    if (entries.size() > 1) {
      if (local < entries.size()) return parsed_int<int>(entries[local]);
      continue;
    }
    const auto number = parsed_int<int>(entries.front());
    // In a cgroup a task's only device is always 0: only Slurm's own list, or the expected number, can be believed.
    if (number && (std::string_view(name) == "SLURM_STEP_GPUS" || *number == at.local_rank)) return number;
  }
  return is_told ? std::nullopt : std::optional<int>(at.local_rank);
}

Binding binding_of(const Placement& at, const Environment& env, const TaskSettings& settings, const Topology& topology,
                   const CpuSet& allowed) {
  if (!settings.cpu_masks.empty()) {
    const auto number = device_number(at, env);
    if (number && *number >= 0 && static_cast<std::size_t>(*number) < settings.cpu_masks.size()) {
      return by_mask(settings, *number);
    }
  }
  return by_device(at, env, topology, allowed);
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
