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
  std::string uuid{};  ///< Such as "GPU-8a1c…", as in a list of visible devices. Empty if the driver reports none.

  int xgmi_links = 0;  ///< AMD: links to other GPUs of the node, as KFD lists them.

  bool operator==(const Gpu&) const = default;
};

/// Facts about this machine from /sys and /proc. Each call reads only the files that it needs, since thousands of tasks
/// call at the same moment.
class Topology {
 public:
  /// `root` stands for "/" in tests.
  explicit Topology(std::filesystem::path root = "/") : root_(std::move(root)) {}

  /// Returns the GPUs that this process may open, in the order of CUDA's and ROCm's runtimes. NVIDIA's are sorted by
  /// PCI address, AMD's are in KFD's order (which hides those that the job's cgroup hides).
  std::vector<Gpu> gpus() const;

  /// Returns the CPUs nearest to a PCI device. Empty if the kernel does not say, as in a virtual machine.
  CpuSet cpus_near(const std::string& pci) const;

  /// Returns the NUMA domains to which `cpus` belong.
  std::vector<int> numa_of(const CpuSet& cpus) const;

  /// Returns the number of cores in `cpus`. A core may have several hardware threads, and all cores are assumed to have
  /// the same number.
  int cores_of(const CpuSet& cpus) const;

  /// Returns the hardware threads of the core that `cpu` belongs to, `cpu` included. Empty if the kernel does not
  /// report them.
  CpuSet threads_of_core(int cpu) const;

  /// Returns the distance between the kernel's numbers of the two threads of a core, whose first is `cpu`. 0 if the
  /// core has one thread.
  int sibling_distance(int cpu) const;

 private:
  std::vector<Gpu> nvidia_gpus() const;
  std::vector<Gpu> amd_gpus() const;

  std::filesystem::path root_;
};

/// Returns the GPU that is device `index` among those that the environment shows. Returns nothing if it is unknown.
/// ROCR_VISIBLE_DEVICES counts within the cgroup. CUDA_VISIBLE_DEVICES does so too in a cgroup, but NVIDIA's driver
/// lists all GPUs of the node. So there the number comes from SLURM_STEP_GPUS.
std::optional<Gpu> gpu_of_device(const std::vector<Gpu>& gpus, const Environment& env, int index);

/// Returns those of the node's GPUs that are allocated to a task with these variables, or to its Slurm step. If no
/// cgroup hides the devices of other jobs, only the variables tell. Without a list it is all of `gpus`. Nothing if a
/// list cannot be read, as with one of slices (MIG).
std::optional<std::vector<Gpu>> allocated_gpus(const std::vector<Gpu>& gpus, const Environment& env);

}  // namespace lockstep
