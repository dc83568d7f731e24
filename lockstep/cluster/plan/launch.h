// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/cluster/plan/facts.h"

namespace lockstep {

/// How the host launches the operations of a step on a device.
enum class LaunchWay {
  kEager,  ///< One by one, by the C++ trainer.
  kGraph,  ///< Recorded once and replayed, see trainer.graph.
};

/// The fixed cost of a step's kernels, which does not depend on the number of samples. On CPUs all these numbers are 0,
/// since a timed step includes the cost.
struct PlanLaunch {
  double kernel_s = 0;       ///< Of the device, for a kernel that has next to nothing to do.
  double host_s = 0;         ///< Host time to launch the next kernel. The device computes meanwhile.
  bool is_compiled = false;  ///< TorchInductor has fused what lies between two products.
  std::string source{};      ///< A line for people.

  /// Returns how long a pass takes if its arithmetic takes this long.
  double pass_s(double arithmetic_s, const PassKernels& kernels) const;
};

/// Returns the cost of a device's kernels.
///
/// Source: a kernel, 3.4 µs: NVIDIA's "Getting Started with CUDA Graphs" (2019), if one of 2.9 µs takes that in a
/// graph, and 3.8 µs on a stream. The host, 10 µs: a step of a 784-32-10 network takes the C++ trainer 327 µs
/// (bench/RESULTS.md) for 31 operations that do next to nothing.
PlanLaunch device_launch(LaunchWay way, bool is_compiled);

/// Returns the kernels of a fused optimizer's update of `tensors` tensors.
///
/// Source: PyTorch's aten/src/ATen/native/cuda/MultiTensorApply.cuh: 36 tensors a launch if each has four lists, as
/// Adam has.
double update_kernels(std::size_t tensors);

}  // namespace lockstep
