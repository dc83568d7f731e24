// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The arithmetic of a training, with narrow types, TF32, and the loss scaling that fp16 needs.
///
///     at::Tensor narrow;
///     {
///       const lockstep::AutocastScope scope(lockstep::Precision::kBf16, world.device().device);
///       narrow = torch::nn::functional::cross_entropy(net->forward(input), target);
///     }
///     ddp.backward(narrow, input.size(0));

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// The arithmetic of a training, as in `trainer.precision`. kBf16 and kFp16 keep weights in float32, and LibTorch's
/// autocast chooses the operations that run in the narrow type.
enum class Precision { kFp64, kFp32, kTf32, kBf16, kFp16 };

/// Returns the precision of that name. Throws: Error(kRecipe) for another name than fp64 fp32 tf32 bf16 fp16.
Precision precision_named(const std::string& name);

/// Returns the name, such as "fp32".
std::string precision_name(Precision precision);

/// Returns the type of weights.
at::ScalarType weights_type(Precision precision);

/// Checks that `device` has this arithmetic. `runtime` is RuntimeFacts::kind. Throws: Error(kRecipe) if it does not.
void require_precision(Precision precision, const c10::Device& device, const std::string& runtime);

/// While an object of this class lives, float32 matrix products and convolutions use TF32 if `precision` is kTf32, and
/// only then. By default LibTorch uses TF32 for convolutions. The destructor restores the setting before.
class Tf32Scope {
 public:
  explicit Tf32Scope(Precision precision);
  ~Tf32Scope();
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool matmul_before_;
  bool convolution_before_;
};

/// While an object of this class lives, operations of this thread on `device` run in the narrow type if autocast
/// considers that safe. For kFp64, kFp32 and kTf32 it does nothing.
class AutocastScope {
 public:
  AutocastScope(Precision precision, const c10::Device& device);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool is_on_;
  c10::DeviceType device_;
  bool enabled_before_ = false;
  at::ScalarType type_before_ = at::kFloat;
};

/// Keeps fp16's small gradients from underflow. The loss is scaled up, and gradients are scaled down again. A step
/// whose gradients overflowed is left out. Gradients are averaged before the check, so all ranks come to the same
/// scale.
///
/// Source: torch.amp.GradScaler, its defaults and ATen's kernels; tests/golden/scaler holds its sequence.
class LossScaler {
 public:
  explicit LossScaler(const c10::Device& device);

  at::Tensor scaled(const at::Tensor& loss) const { return loss.mul(scale_); }

  /// Divides gradients by the scale, and adapts the scale. True if all are finite, so the step may be made.
  ///
  /// Blocks: until the gradients are known.
  bool unscale(const std::vector<at::Tensor>& gradients);
  /// Unscales gradients and adapts the scale without waiting for the device. Returns 1 if a gradient is not finite,
  /// else 0. Shape: returns [1].
  at::Tensor overflow_of(const std::vector<at::Tensor>& gradients);

  double scale() const;
  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  at::Tensor scale_;
  at::Tensor growth_tracker_;
};

}  // namespace lockstep
