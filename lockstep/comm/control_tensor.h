// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>

#include "lockstep/device/streams.h"

namespace lockstep {

/// A leaf without use in the model: its gradient is averaged with the others, and so carries signals and sample counts
/// at no extra message.
class ControlTensor {
 public:
  static constexpr std::int64_t kSignals = 2;
  using Signals = std::array<bool, kSignals>;

  ControlTensor() = default;
  explicit ControlTensor(const at::TensorOptions& options);

  const at::Tensor& leaf() const { return leaf_; }
  /// What this rank brings: the gradient to start the leaf's backward with.
  const at::Tensor& gradient() const { return gradient_; }

  /// Most steps say what the step before said; then nothing is written, and to a device nothing sent.
  void write(const Signals& raised, std::int64_t samples);

  /// What any rank raised, once the leaf's gradient is averaged. On a device what was raised for the step before: to
  /// read this step's, the host would have to wait until the device has done it, and would then give it nothing to do.
  /// Every rank is told the same at the same step either way.
  /// Blocks: until this step is done; on a device until the one before is, with `look` as in Readback::wait().
  Signals read(const std::function<void()>& look = {});

  /// The mean over ranks of the samples written, as a number. Blocks: until it is there.
  double mean_samples() const;
  /// The same as a tensor of shape [], where the gradient is.
  at::Tensor mean_samples_there() const { return leaf_.grad()[kSignals]; }

 private:
  at::Tensor leaf_;
  at::Tensor gradient_;
  std::array<double, kSignals + 1> written_{};  ///< What gradient_ holds: the signals, then this rank's samples.
  Readback readback_;
};

}  // namespace lockstep
