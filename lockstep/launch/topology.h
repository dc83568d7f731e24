// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/cpu_set.h"
#include "lockstep/base/environment.h"
#include "lockstep/launch/placement/placement.h"

namespace lockstep {

enum class GpuMaker { kNvidia, kAmd };

/// One GPU as the kernel's drivers list it.
struct Gpu {
  GpuMaker maker = GpuMaker::kNvidia;
  std::string pci{};   ///< "0000:c1:00.0".
  std::string uuid{};  ///< "GPU-8a1c…", as a list of visible devices may name it; empty where the driver tells none.

  bool operator==(const Gpu&) const = default;
};

/// What the kernel tells of this machine under /sys and /proc. Reads on each call, and only what the answer needs:
/// thousands of tasks ask at the same moment.
class Topology {
 public:
  /// `root` stands for "/" in tests.
  explicit Topology(std::filesystem::path root = "/") : root_(std::move(root)) {}

  /// The GPUs that this process may open, in the order in which CUDA's and ROCm's runtimes number them: NVIDIA's by PCI
  /// address, AMD's as KFD has them (it hides those that the job's cgroup does).
  std::vector<Gpu> gpus() const;

  /// The CPUs nearest to a PCI device; empty where the kernel does not say, as in a virtual machine.
  CpuSet cpus_near(const std::string& pci) const;

  /// The NUMA domains that `cpus` lie in.
  std::vector<int> numa_of(const CpuSet& cpus) const;

  /// How many cores `cpus` are, where each core may have several hardware threads. Takes all cores to be alike.
  int cores_of(const CpuSet& cpus) const;

  /// The hardware threads of the core that `cpu` is one of, itself included; empty if the kernel does not say.
  CpuSet threads_of_core(int cpu) const;

  /// How far apart the kernel numbers the two threads of the core that `cpu` is the first of; 0 where it has one.
  int sibling_distance(int cpu) const;

 private:
  std::vector<Gpu> nvidia_gpus() const;
  std::vector<Gpu> amd_gpus() const;

  std::filesystem::path root_;
};

/// Of `gpus`, the one that is device `index` among those that the environment shows, or nothing where that cannot be
/// told. ROCR_VISIBLE_DEVICES counts what the cgroup leaves, CUDA_VISIBLE_DEVICES of a task in a cgroup does too while
/// NVIDIA's driver lists all: there SLURM_STEP_GPUS tells.
std::optional<Gpu> gpu_of_device(const std::vector<Gpu>& gpus, const Environment& env, int index);

}  // namespace lockstep
