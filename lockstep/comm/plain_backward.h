// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/comm/module_tensors.h"

namespace torch::autograd {
struct Node;
}

namespace lockstep {

/// While an object of this class lives, this process runs a backward pass whose gradients are averaged. Only sources in
/// comm/ use it.
class AveragedBackward {
 public:
  AveragedBackward();
  ~AveragedBackward();
  AveragedBackward(const AveragedBackward&) = delete;
  AveragedBackward& operator=(const AveragedBackward&) = delete;
};

/// While an object of this class lives, a backward pass that is not averaged throws Error(kUsage) as soon as it adds to
/// the gradient of one of the parameters. The error names the parameter.
///
/// The backward pass of another DistributedDataParallel may reach these parameters, as a generator's pass goes through
/// its discriminator.
class PlainBackwardGuard {
 public:
  explicit PlainBackwardGuard(const std::vector<NamedTensor>& parameters);
  ~PlainBackwardGuard();
  PlainBackwardGuard(const PlainBackwardGuard&) = delete;
  PlainBackwardGuard& operator=(const PlainBackwardGuard&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
};

}  // namespace lockstep
