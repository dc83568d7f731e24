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

/// Facts of this machine from /sys and /proc. It reads on each call, and only what the answer needs, since thousands of
/// tasks ask at the same moment.
class Topology {
 public:
  /// `root` stands for "/" in tests.
  explicit Topology(std::filesystem::path root = "/") : root_(std::move(root)) {}

  /// Returns the GPUs that this process may open, in the order of CUDA's and ROCm's runtimes. NVIDIA's are sorted by
  /// PCI address, AMD's are in KFD's order (which hides those that the job's cgroup hides).
  std::vector<Gpu> gpus() const;

  /// Returns the CPUs nearest to a PCI device. Empty if the kernel does not say, as in a virtual machine.
  CpuSet cpus_near(const std::string& pci) const;

  /// The NUMA domains that `cpus` lie in.
  std::vector<int> numa_of(const CpuSet& cpus) const;

  /// Returns the number of cores in `cpus`, if each core may have several hardware threads. It takes all cores to be
  /// alike.
  int cores_of(const CpuSet& cpus) const;

  /// Returns the hardware threads of the core that `cpu` belongs to, itself included. Empty if the kernel does not say.
  CpuSet threads_of_core(int cpu) const;

  /// Returns the distance between the kernel's numbers of the two threads of a core, whose first is `cpu`. 0 if it has
  /// one.
  int sibling_distance(int cpu) const;

 private:
  std::vector<Gpu> nvidia_gpus() const;
  std::vector<Gpu> amd_gpus() const;

  std::filesystem::path root_;
};

/// Returns the GPU that is device `index` among those that the environment shows. Nothing if it is unknown.
/// ROCR_VISIBLE_DEVICES counts within the cgroup. So does CUDA_VISIBLE_DEVICES of a task in a cgroup, while NVIDIA's
/// driver lists all, so there SLURM_STEP_GPUS decides.
std::optional<Gpu> gpu_of_device(const std::vector<Gpu>& gpus, const Environment& env, int index);

}  // namespace lockstep
