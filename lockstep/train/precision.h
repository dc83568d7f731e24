// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// The arithmetic of a training: `trainer.precision`. bf16 and fp16 keep weights in float32 and let LibTorch's autocast
/// choose what runs narrow.
enum class Precision { kFp64, kFp32, kTf32, kBf16, kFp16 };

/// Throws: Error(kRecipe) for another name than fp64 fp32 tf32 bf16 fp16.
Precision precision_named(const std::string& name);

/// "fp32"
std::string precision_name(Precision precision);

/// The type of weights.
at::ScalarType weights_type(Precision precision);

/// Throws: Error(kRecipe) where `device` has no such arithmetic: never ignored.
void require_precision(Precision precision, const c10::Device& device);

/// While it lives, float32 matrix products and convolutions use TF32 where that was chosen, and only there: LibTorch by
/// itself lets convolutions. Before and after as it was.
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

/// While it lives, operations of this thread on `device` run in the narrow type where autocast finds that safe. Does
/// nothing for fp64, fp32 and tf32.
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

/// Keeps fp16's small gradients from vanishing: the loss is scaled up, gradients down again, and a step whose gradients
/// overflowed is left out. Gradients are averaged before they are looked at, so all ranks come to the same scale.
///
/// Source: torch.amp.GradScaler, its defaults and ATen's kernels; tests/golden/scaler holds its sequence.
class LossScaler {
 public:
  explicit LossScaler(const c10::Device& device);

  at::Tensor scaled(const at::Tensor& loss) const { return loss.mul(scale_); }

  /// Divides gradients by the scale, and adapts it.
  ///
  /// A claim: they are all finite, so the step may be made. Blocks: until they are known.
  bool unscale(const std::vector<at::Tensor>& gradients);
  /// The same without a wait. Shape: returns [1], 1 where one of them is not finite, else 0.
  at::Tensor overflow_of(const std::vector<at::Tensor>& gradients);

  double scale() const;
  std::map<std::string, double> state() const;
  void restore(const std::map<std::string, double>& state);

 private:
  at::Tensor scale_;
  at::Tensor growth_tracker_;
};

}  // namespace lockstep
