// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct Named {
  const char* name;
  Precision precision;
};

constexpr std::array<Named, 5> kNames = {{{"fp64", Precision::kFp64},
                                          {"fp32", Precision::kFp32},
                                          {"tf32", Precision::kTf32},
                                          {"bf16", Precision::kBf16},
                                          {"fp16", Precision::kFp16}}};

constexpr double kInitialScale = 65536;
constexpr double kGrowth = 2;
constexpr double kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;

}  // namespace

Precision precision_named(const std::string& name) {
  for (const auto& each : kNames) {
    if (name == each.name) return each.precision;
  }
  throw Error(ErrorKind::kRecipe, "trainer.precision is '" + name + "', want fp64, fp32, tf32, bf16 or fp16");
}

std::string precision_name(Precision precision) {
  return std::find_if(kNames.begin(), kNames.end(), [=](const auto& each) { return each.precision == precision; })
      ->name;
}

at::ScalarType weights_type(Precision precision) { return precision == Precision::kFp64 ? at::kDouble : at::kFloat; }

void require_precision(Precision precision, const c10::Device& device, const std::string& runtime) {
  // In LibTorch, AMD's devices also have the type cuda. So the runtime decides.
  const bool is_amd = runtime == "ROCm";
  if (precision == Precision::kTf32 && (!device.is_cuda() || is_amd)) {
    throw Error(ErrorKind::kRecipe,
                "trainer.precision is tf32, which the device " + device.str() + (is_amd ? " (ROCm)" : "") + " has not",
                "set fp32, or train on an NVIDIA GPU from Ampere on");
  }
}

Tf32Scope::Tf32Scope(Precision precision)
    : matmul_before_(at::globalContext().allowTF32CuBLAS()), convolution_before_(at::globalContext().allowTF32CuDNN()) {
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::kTf32);
  at::globalContext().setAllowTF32CuDNN(precision == Precision::kTf32);
}

Tf32Scope::~Tf32Scope() {
  at::globalContext().setAllowTF32CuBLAS(matmul_before_);
  at::globalContext().setAllowTF32CuDNN(convolution_before_);
}

AutocastScope::AutocastScope(Precision precision, const c10::Device& device)
    : is_on_(precision == Precision::kBf16 || precision == Precision::kFp16), device_(device.type()) {
  if (!is_on_) return;
  enabled_before_ = at::autocast::is_autocast_enabled(device_);
  type_before_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision == Precision::kBf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::increment_nesting();
}

// Autocast caches the narrow copies of weights. The cache is cleared when the outermost scope ends, since the weights
// differ in the next step.
AutocastScope::~AutocastScope() {
  if (!is_on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

LossScaler::LossScaler(const c10::Device& device)
    : scale_(at::full({1}, kInitialScale, at::TensorOptions(device).dtype(at::kFloat))),
      growth_tracker_(at::zeros({1}, at::TensorOptions(device).dtype(at::kInt))) {}

at::Tensor LossScaler::overflow_of(const std::vector<at::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  auto overflow = at::zeros_like(scale_);
  const auto inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, overflow, inverse);
  at::_amp_update_scale_(scale_, growth_tracker_, overflow, kGrowth, kBackoff, kGrowthInterval);
  return overflow;
}

bool LossScaler::unscale(const std::vector<at::Tensor>& gradients) { return overflow_of(gradients).item<float>() == 0; }

double LossScaler::scale() const { return scale_.item<double>(); }

std::map<std::string, double> LossScaler::state() const {
  return {{"scale", scale()}, {"growth_tracker", growth_tracker_.item<double>()}};
}

void LossScaler::restore(const std::map<std::string, double>& state) {
  if (state.empty()) return;
  scale_.fill_(state.at("scale"));
  growth_tracker_.fill_(state.at("growth_tracker"));
}

}  // namespace lockstep
