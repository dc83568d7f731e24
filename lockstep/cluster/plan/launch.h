// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/cluster/plan/facts.h"

namespace lockstep {

/// How a device is given the operations of a step.
enum class LaunchWay {
  kEager,  ///< One by one, by the C++ trainer.
  kGraph,  ///< Recorded once and replayed: trainer.graph.
};

/// What a step's kernels cost besides their arithmetic, however few samples they work on. On processors all of it is 0:
/// a step that is timed there holds it already.
struct PlanLaunch {
  double kernel_s = 0;       ///< Of the device, for a kernel that has next to nothing to do.
  double host_s = 0;         ///< Of the host, to give the device the next one; the device computes meanwhile.
  bool is_compiled = false;  ///< TorchInductor has fused what lies between two products.
  std::string source{};      ///< A line for people.

  /// Returns how long a pass takes whose arithmetic takes so long.
  double pass_s(double arithmetic_s, const PassKernels& kernels) const;
};

/// Returns what a device's kernels cost.
///
/// Source: a kernel, 3.4 µs: NVIDIA's "Getting Started with CUDA Graphs" (2019), where one of 2.9 µs takes that in a
/// graph, and 3.8 µs on a stream. The host, 10 µs: a step of a 784-32-10 network takes the C++ trainer 327 µs
/// (bench/RESULTS.md) for 31 operations that do next to nothing.
PlanLaunch device_launch(LaunchWay way, bool is_compiled);

/// Returns the kernels of a fused optimizer's update of so many tensors.
///
/// Source: PyTorch's aten/src/ATen/native/cuda/MultiTensorApply.cuh: 36 tensors a launch where each has four lists, as
/// Adam has.
double update_kernels(std::size_t tensors);

}  // namespace lockstep
