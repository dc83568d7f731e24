// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/plan/launch.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kKernelSeconds = 3.4e-6;
constexpr double kHostSeconds = 10e-6;
constexpr double kTensorsOfLaunch = 36;

}  // namespace

double PlanLaunch::pass_s(double arithmetic_s, const PassKernels& kernels) const {
  // A fused pass has one kernel for each matrix product, and one kernel between two products.
  const double fused = kernels.products > 0 ? std::min(kernels.all, 2 * kernels.products) : kernels.all;
  const double count = is_compiled ? fused : kernels.all;
  return std::max(arithmetic_s + count * kernel_s, count * host_s);
}

PlanLaunch device_launch(LaunchWay way, bool is_compiled) {
  const bool is_graph = way == LaunchWay::kGraph;
  PlanLaunch launch{.kernel_s = kKernelSeconds, .host_s = is_graph ? 0 : kHostSeconds, .is_compiled = is_compiled};
  launch.source =
      std::string("kernels: operations counted here, each at least 3.4 µs (published: NVIDIA, CUDA Graphs)") +
      (is_graph ? ", replayed from a recorded graph (trainer.graph)" : ", started one by one in 10 µs each") +
      (is_compiled ? ", fused between products (model.compiled)" : "");
  return launch;
}

double update_kernels(std::size_t tensors) { return std::ceil(static_cast<double>(tensors) / kTensorsOfLaunch); }

}  // namespace lockstep
