// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>

#include "lockstep/device/streams.h"

namespace lockstep {

/// An autograd leaf tensor that the model does not use. Its gradient is averaged with those of the model. In this way
/// it carries signals and sample counts without an extra message.
class ControlTensor {
 public:
  static constexpr std::int64_t kSignals = 2;
  using Signals = std::array<bool, kSignals>;

  ControlTensor() = default;
  explicit ControlTensor(const at::TensorOptions& options);

  const at::Tensor& leaf() const { return leaf_; }
  /// Returns this rank's contribution: the gradient with which the leaf's backward starts.
  const at::Tensor& gradient() const { return gradient_; }

  /// Most steps write the same numbers as the step before. Then nothing is written, and nothing is sent to a device.
  void write(const Signals& raised, std::int64_t samples);

  /// Returns the signals that any rank raised, once the leaf's gradient is averaged. On a device they are those of the
  /// step before. To read this step's signals, the host would have to wait for the device, which would then have no
  /// work. Either way every rank gets the same signals at the same step.
  /// Blocks: on a CPU not at all; on a device until the step before is done, with `look` as in Readback::wait().
  Signals read(const std::function<void()>& look = {});

  /// Returns the mean over ranks of their numbers of samples. Blocks: until the device has computed it.
  double mean_samples() const;
  /// Returns the mean number of samples as a tensor of shape [], on the gradient's device.
  at::Tensor mean_samples_there() const { return leaf_.grad()[kSignals]; }

 private:
  at::Tensor leaf_;
  at::Tensor gradient_;
  std::array<double, kSignals + 1> written_{};  ///< The content of gradient_, that is the signals, then this rank's
                                                ///< samples.
  Readback readback_;
};

}  // namespace lockstep
