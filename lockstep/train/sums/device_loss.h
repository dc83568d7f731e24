// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace lockstep {

/// Sums of losses over samples that stay on the device until they are asked for, so that no step waits for its loss.
class DeviceLoss {
 public:
  explicit DeviceLoss(const c10::Device& device);

  /// Adds the mean loss of `samples` samples. Shape: mean [].
  void add(const at::Tensor& mean, std::int64_t samples);

  struct Sums {
    double epoch = 0;
    double since_logged = 0;
  };
  /// Returns both sums. Blocks: until the device has done all steps so far.
  Sums sums() const;
  void set(const Sums& sums);

 private:
  at::Tensor sums_;
};

}  // namespace lockstep
