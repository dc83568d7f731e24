// SPDX-License-Identifier: Apache-2.0
// One small tensor that is averaged together with the gradients. To the reducer it is a parameter like any other. Its
// gradient on each rank holds the signals that the rank raises and its number of samples, so averaging gives every rank
// the same means. A signal is raised if its mean is above 0.
//
// On a CPU the means are read at once. On a device, reading them would stop the host until the step is done, so the
// host begins a copy and reads the one from the step before. All ranks do the same, so all see a signal after the same
// step, one step later than on a CPU. If a rank dies, the all-reduce fails, and what was read is not used.
#include "lockstep/comm/control_tensor.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

namespace lockstep {
namespace {

ControlTensor::Signals signals_of(const at::Tensor& values) {
  const auto wide = values.to(at::kDouble);
  ControlTensor::Signals signals{};
  for (std::size_t i = 0; i < signals.size(); ++i) signals[i] = wide.const_data_ptr<double>()[i] > 0;
  return signals;
}

}  // namespace

ControlTensor::ControlTensor(const at::TensorOptions& options)
    : leaf_(at::zeros({kSignals + 1}, options).requires_grad_(true)), gradient_(at::zeros({kSignals + 1}, options)) {}

// On a device each changed number is set by fill_(), since a copy from the host would wait for the device.
void ControlTensor::write(const Signals& raised, std::int64_t samples) {
  std::array<double, kSignals + 1> values{};
  for (std::size_t i = 0; i < raised.size(); ++i) values[i] = raised[i] ? 1 : 0;
  values[kSignals] = static_cast<double>(samples);
  if (values == written_) return;
  if (gradient_.is_cpu()) {
    gradient_.copy_(at::from_blob(values.data(), {kSignals + 1}, at::kDouble));
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != written_[i]) gradient_[static_cast<std::int64_t>(i)].fill_(values[i]);
    }
  }
  written_ = values;
}

ControlTensor::Signals ControlTensor::read(const std::function<void()>& look) {
  const auto& sum = leaf_.grad();
  if (sum.is_cpu()) return signals_of(sum);
  Signals before{};
  if (readback_.has_begun()) before = signals_of(readback_.wait(look));
  readback_.begin(sum);
  return before;
}

double ControlTensor::mean_samples() const { return mean_samples_there().item<double>(); }

}  // namespace lockstep
